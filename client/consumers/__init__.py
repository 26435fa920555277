"""Consumers: reader groups that read nothing, but keep the events that a query still needs."""
