"""Spark's Python Data Source API over Pravega: planning and reading scans, transactional writes."""
