"""Keras callbacks: checkpoints, validation, TensorBoard, profiling."""
