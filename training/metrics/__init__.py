"""Metrics of translations: those of sacreBLEU, COMET, and exact matches."""
