"""The client of the segment stores: connections, requests, and the bytes of segments, read and appended."""
