"""The schema registry over its REST interface."""
