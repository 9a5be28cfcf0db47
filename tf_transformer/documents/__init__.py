"""Documents: text of any length, with several sentences and line breaks."""
