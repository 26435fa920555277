"""Records that contain themselves: columns of JSON text, read and written."""
