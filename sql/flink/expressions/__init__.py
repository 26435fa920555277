"""Expressions of Flink: their types, and what they become in Spark."""
