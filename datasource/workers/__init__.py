"""What tasks share inside a Python worker."""
