"""HTML and XML as tokens whose sources, one after the other, are the document."""
