"""Folds of changes of tables without a primary key."""
