"""A model directory in, something deployable out."""
