"""What the tasks in a Python worker share."""
