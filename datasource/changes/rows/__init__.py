"""Folds of changes into rows, without I/O."""
