"""JSON Schemas: parsed, mapped to Spark types and back, and edited."""
