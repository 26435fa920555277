"""Scopes as namespaces and streams as tables: DDL, table metadata, and the service that Spark's driver calls."""
