"""What a run writes to resume from: checkpoints, its fingerprint, validation scores."""
