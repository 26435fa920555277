"""One door per kind of table: how it is scanned, written and changed, and what it shows beside its columns."""
