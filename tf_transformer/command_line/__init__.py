"""Code that the commands of `training` and `export` share."""
