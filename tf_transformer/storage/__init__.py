"""Files: model directories, weights, JSON, and atomic writes."""
