"""Finds events by their bytes, without decoding them: natively, or in Python where there is no native code."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from pyspark_pravega import native

from ..core.events import EventBuffer, EventPositions


def find_texts(events: EventBuffer, texts: Sequence[bytes]) -> EventPositions:
    """Return the positions of the events that contain one of some texts."""
    module = native.get_module()
    if module is not None:
        found = module.find_payloads(*events.octets(), list(texts))
        return np.zeros(0, np.int64) if found is None else np.frombuffer(found, np.int64)
    every = _read_span(events)
    there = [text for text in texts if text in every]  # most often none of them
    if not there:
        return np.zeros(0, np.int64)
    places = [place for place, payload in enumerate(events.payloads()) if any(map(payload.__contains__, there))]
    return np.array(places, np.int64)


def find_rare_events(events: EventBuffer, texts: Sequence[bytes], pattern: bytes) -> EventPositions:
    """Return the positions of the events with a pattern. What matches it contains one of some texts."""
    suspects = find_texts(events, texts)
    search = re.compile(pattern).search
    matching = [place for place, payload in enumerate(events.take(suspects).payloads()) if search(payload)]
    return suspects[np.array(matching, np.int64)]


def find_events(events: EventBuffer, pattern: bytes) -> EventPositions:
    """Return the positions of the events in whose bytes a regular expression finds something."""
    if not len(events):
        return np.zeros(0, np.int64)
    order = np.argsort(events.starts, kind="stable")
    starts, ends = events.starts[order], (events.starts + events.lengths)[order]
    data = memoryview(events.data)[: int(ends.max())]
    found = np.array([match.start() for match in re.compile(pattern).finditer(data, int(starts[0]))], np.int64)
    positions = np.searchsorted(starts, found, side="right") - 1
    inside = (positions >= 0) & (found < ends[positions])
    return np.unique(order[positions[inside]])


def _read_span(events: EventBuffer) -> bytes:
    """Return all bytes from the first to the last byte of some events."""
    if not len(events):
        return b""
    first, last = int(events.starts.min()), int((events.starts + events.lengths).max())
    return bytes(memoryview(events.data)[first:last])
