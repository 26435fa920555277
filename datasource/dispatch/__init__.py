"""Writes into several streams: each row goes to the stream that a column names."""
