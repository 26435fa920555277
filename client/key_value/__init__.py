"""Key-value tables: entries with versions, in table segments."""
