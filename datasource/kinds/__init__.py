"""The kinds of tables: how each is scanned, written and changed, and what it shows besides its columns."""
