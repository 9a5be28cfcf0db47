"""The built-in demonstrations: a small translation task and the copy task."""
