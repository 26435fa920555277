"""Records that contain themselves, which are columns of JSON text."""
