"""JSON: documents, and the mapping between JSON schemas and Spark types."""
