"""Reports to look at in a browser: translations of several systems, training runs, a model at work."""
