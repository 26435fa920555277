"""Formats without a schema text: raw bytes, text, and CSV."""
