"""The Keras models: encoder-decoder Transformer and decoder-only language model."""
