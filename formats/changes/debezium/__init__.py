"""Debezium's events as JSON and as Avro."""
