"""Aggregates that tasks begin and Spark finishes."""
