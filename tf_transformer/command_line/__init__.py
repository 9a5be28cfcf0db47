"""What the commands of `training` and `export` share."""
