"""Streaming queries: what they read, micro-batch by micro-batch, and what they write to."""
