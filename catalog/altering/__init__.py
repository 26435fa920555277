"""ALTER TABLE: its properties and its columns."""
