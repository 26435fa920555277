"""How time and memory grow with events, segments, columns and streams: `python -m bench.scale`."""
