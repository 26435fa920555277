"""Streaming queries that CALL start_query keeps running."""
