"""The controller: everything that is not the bytes of a segment. One module per group of its gRPC calls."""
