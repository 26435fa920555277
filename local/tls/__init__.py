"""The certificates of a local cluster with TLS."""
