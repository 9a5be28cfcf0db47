"""Errors of translations that are visible without a person who knows both languages."""
