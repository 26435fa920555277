"""Payload bytes <-> Arrow batches, schema texts <-> Spark types. No Spark session, no connections.

Start at `format` (the protocols and the FORMATS table); one module per format implements them.
"""
