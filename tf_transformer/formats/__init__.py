"""Models of other toolkits: read, checked, and written."""
