"""Consumers: reader groups that read nothing, and keep for a query what it still needs."""
