"""Encodings of database values in change events: times, decimals, and the schemas of Kafka Connect."""
