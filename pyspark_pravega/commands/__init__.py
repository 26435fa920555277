"""The command `pyspark-pravega`, and its sub-commands that do not need Spark."""
