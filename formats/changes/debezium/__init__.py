"""Debezium events as JSON and as Avro."""
