"""Spark types <-> schema texts, one visitor per direction, and Spark types -> Arrow."""
