"""Many statements at the same time, by each front end: `python -m bench.crowd --help`."""
