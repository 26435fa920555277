"""Streams, key-value tables, views and scopes as Spark knows them: listed, loaded, made, dropped."""
