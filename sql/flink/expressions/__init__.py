"""Infer the types of Flink's expressions, and translate the expressions."""
