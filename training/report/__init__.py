"""Reports to look at in a browser: translations of systems, training runs, a model at work."""
