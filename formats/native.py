"""Decodes and encodes with the native crate, and with the reference in Python where the crate cannot."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from pyspark_pravega import native

from .core.arrow_types import restore_order
from .core.batches import PIECE_EVENTS, PayloadReader
from .core.columns import Problems
from .core.events import EventBuffer, EventPositions

_log = logging.getLogger(__name__)

Made = TypeVar("Made")
Spec = Any
"""Describes a column or a plan as nested dicts and sequences, which `native/src/spec.rs` reads."""

NATIVE_PIECE_EVENTS = 65_536
NATIVE_PIECE_BYTES = 16 << 20
"""Events and bytes per call. No Python objects are made of them, so pieces may be larger than the reference reads."""


class Unplanned(Exception):
    """Raised for something that the native code cannot do. The text says what."""


def make_natively(make: Callable[[Any], Made], what: str) -> Made | None:
    """Return what `make` makes by the native module; None if there is no such module, or it raises Unplanned.

    `what` says in the log what Python does then.
    """
    module = native.get_module()
    if module is None:
        return None
    try:
        return make(module)
    except (Unplanned, ValueError) as reason:
        _log.info("%s in Python: %s", what, reason)
        return None


def choose_reader(reference: PayloadReader, make: Callable[[Any], Any], what: str) -> PayloadReader:
    """Return a native reader if there can be one, else the reference.

    `make` makes its decoder by the native module, and may raise Unplanned; `what` names the schema in the log.
    """
    return make_natively(lambda module: NativeReader(make(module), reference), f"{what} is decoded") or reference


class NativeReader(PayloadReader):
    """Reads payloads natively, and the others by the reference. Raises Unplanned if the types of columns differ."""

    piece_events = NATIVE_PIECE_EVENTS

    def __init__(self, decoder: Any, reference: PayloadReader) -> None:
        self.decoder = decoder
        self._reference = reference
        nothing = EventBuffer.of([])
        types = [array.type for array in reference.arrays(nothing, False, Problems())]
        self._empty = not types
        if not self._empty and [array.type for array in self.arrays(nothing, False, Problems())] != types:
            raise Unplanned("a column has a type that the native decoder cannot give exactly")

    def arrays(self, payloads: EventBuffer, padded: bool, problems: Problems) -> list[pa.Array]:
        batch, unread = self.decoder.decode(*payloads.octets(), padded)
        accepted: list[pa.Array] = [] if self._empty else pa.record_batch(batch).columns
        if unread is None:
            return accepted
        positions = np.delete(np.arange(len(payloads)), np.frombuffer(unread, np.int64))
        return read_rest([accepted], [positions], self._reference, payloads, padded, problems)


def read_rest(
    parts: list[list[pa.Array]],
    positions: list[EventPositions],
    reference: PayloadReader,
    payloads: EventBuffer,
    padded: bool,
    problems: Problems,
) -> list[pa.Array]:
    """Return the columns of all payloads in order. Parts have those at `positions`; the reference reads the others."""
    rest = np.delete(np.arange(len(payloads)), np.concatenate(positions))
    for begin in range(0, len(rest), PIECE_EVENTS):
        here, part_problems = rest[begin : begin + PIECE_EVENTS], Problems()
        parts.append(reference.arrays(payloads.take(here), padded, part_problems))
        positions.append(here)
        for position, reason in part_problems.reasons.items():
            problems.add(int(here[position]), reason)
    return parts[0] if len(parts) == 1 else restore_order(parts, positions)
