"""The commands that train, evaluate, prepare and draw."""
