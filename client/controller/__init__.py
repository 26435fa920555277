"""The client of the controller: all but the bytes of segments. One module per group of its gRPC calls."""
