"""Avro: binary data, schema resolution, and the mapping between Avro schemas and Spark types."""
