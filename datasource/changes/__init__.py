"""Tables of changes: current rows, CHANGES, and streams of changes."""
