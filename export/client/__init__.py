"""A client for TF Serving; needs no TensorFlow."""

from export.client.client import Client, Translation

__all__ = ["Client", "Translation"]
