"""Key-value tables as tables of rows: keys, ranges of keys, scans and writes."""
