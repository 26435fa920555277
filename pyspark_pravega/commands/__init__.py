"""The command `pyspark-pravega`, and its sub-commands that need no Spark."""
