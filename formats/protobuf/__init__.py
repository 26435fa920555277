"""Protobuf: messages, and the mapping from their descriptors to Spark types."""
