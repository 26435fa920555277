"""The jars of the servers: how they are fetched, verified and kept."""
