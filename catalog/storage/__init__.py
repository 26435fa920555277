"""What Pravega stores about scopes and tables, and how the catalog reaches it."""
