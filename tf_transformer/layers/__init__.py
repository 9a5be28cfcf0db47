"""The Keras layers that the models are made of."""
