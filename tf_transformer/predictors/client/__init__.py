"""A client for TF Serving; needs no TensorFlow."""

from tf_transformer.predictors.client.client import Client, Translation

__all__ = ["Client", "Translation"]
