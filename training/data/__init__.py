"""Text files to batches: reading, vocabularies, length buckets, augmentation."""
