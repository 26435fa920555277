"""Find Spark, configure it for Pravega, and start it."""
