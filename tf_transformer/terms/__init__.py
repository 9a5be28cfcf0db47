"""Terms and protected spans: phrases that a translation must contain."""
