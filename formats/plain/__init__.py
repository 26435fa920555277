"""Formats that the registry does not know: raw bytes, text, and CSV."""
