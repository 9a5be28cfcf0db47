"""Files of tensors that other toolkits write: safetensors, PyTorch and NumPy, read as data only."""
