"""The embedded default: a real Pravega and schema registry on this machine."""
