"""Shared by all formats: the protocols, events in buffers, columns, batches, framing."""
