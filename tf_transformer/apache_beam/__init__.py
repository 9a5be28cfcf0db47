"""Running Apache Beam pipelines: options of the command line, failures and progress."""
