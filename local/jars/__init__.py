"""The jars that the servers run on: fetched, verified, kept."""
