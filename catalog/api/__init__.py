"""The catalog for Python programs without Spark: tables scanned to Arrow, appended to and followed."""
