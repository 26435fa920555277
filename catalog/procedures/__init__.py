"""Procedures: what `CALL <catalog>.system.<name>(...)` does to a stream."""
