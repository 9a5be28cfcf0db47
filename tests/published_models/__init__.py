"""Settings and sizes of published models, and folders with them and random weights."""
