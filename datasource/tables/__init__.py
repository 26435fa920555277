"""Descriptions of tables: loading them from Pravega and the registry."""
