"""CREATE TABLE: the declaration, what exists already, the schema, and the stream itself."""
