"""The lake: an Iceberg table that has the old events of a stream."""
