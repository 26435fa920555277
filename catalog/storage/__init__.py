"""What Pravega keeps of scopes and tables, and how the catalog reaches it."""
