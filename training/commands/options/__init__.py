"""Options that commands of this package share, and what they do."""
