"""Writes: begins them, keeps those that are open, and commits or aborts them."""
