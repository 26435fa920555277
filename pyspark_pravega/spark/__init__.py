"""Spark with Pravega in it: where it is, how it is configured, and how it is started."""
