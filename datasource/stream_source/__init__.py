"""A table as a stream: offsets, where a query starts, how far a micro-batch goes, and what it reads."""
