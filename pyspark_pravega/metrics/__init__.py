"""Metrics of streams, consumers and queries for those who operate a Pravega, as Prometheus reads them."""
