"""Training objective: loss, metrics and learning rate schedule."""
