"""A web page to try the translations of a predictor, with an API and metrics."""
