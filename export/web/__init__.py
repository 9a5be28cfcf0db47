"""A web page to try translations, in front of TF Serving; needs no TensorFlow."""
