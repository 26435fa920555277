"""Formats whose events are changes of rows in a database."""
