"""Metadata tables: what there is to know about a stream, as rows."""
