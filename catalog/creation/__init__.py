"""CREATE TABLE: what is declared, the streams that are there, the schema, and the stream itself."""
