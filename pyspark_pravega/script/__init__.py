"""Run SQL scripts with streaming statements: `pyspark-pravega run script.sql`."""
