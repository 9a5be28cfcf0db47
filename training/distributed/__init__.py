"""Several devices and several workers."""
