"""Reports to look at in a browser: translations of several systems, and training runs."""
