"""Positions in a stream: bounds, snapshots, tags, versions and times."""
