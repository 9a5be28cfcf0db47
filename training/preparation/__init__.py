"""Making prepared folders: text to sharded token ids, in parallel."""
