"""What queries name, and the plans of what they read."""
