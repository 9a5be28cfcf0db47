"""Variables in TensorFlow's checkpoints, read as data only and without TensorFlow."""
