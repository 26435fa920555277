"""Flink SQL of Pravega jobs as Spark SQL: scripts for `pyspark-pravega run`."""
