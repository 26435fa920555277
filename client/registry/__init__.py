"""The client of the schema registry, which has a REST interface."""
