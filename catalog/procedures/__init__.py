"""Procedures: what is done to a stream by `CALL <catalog>.system.<name>(...)`."""
