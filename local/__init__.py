"""A real Pravega and schema registry on this machine."""
