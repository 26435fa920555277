"""Decodes and encodes by the native crate, with the reference in Python behind it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from pyspark_pravega import native

from .core.batches import PIECE_EVENTS, PayloadReader
from .core.columns import Problems
from .core.events import EventBuffer, EventPositions

Spec = tuple[Any, ...]
"""A column or a plan as nested tuples, which `native/src/spec.rs` reads."""


class Unplanned(Exception):
    """Something that the native decoder cannot do. The text says what."""


def wrap_column(name: str, column: Spec) -> Spec:
    """Return a struct of one column, for events that are a single value."""
    _, arrow_type, nullable, *_ = column
    return ("struct", pa.struct([pa.field(name, arrow_type, nullable)]), False, [name], [column])


NO_COLUMNS: Spec = ("struct", pa.struct([]), False, [], [])
"""For events that are only counted."""


_log = logging.getLogger(__name__)

NATIVE_PIECE_EVENTS = 65_536
"""Events per call: no Python objects are made of them, so that pieces may be larger than the reference's."""


def plan_json(columns: Spec, value: bool) -> Callable[[Any], Any]:
    """Return what makes the native decoder of JSON. `value`: the document is the value of the only column."""
    return lambda module: module.Decoder.json(columns, value)


def plan_avro(columns: Spec, plan: Spec) -> Callable[[Any], Any]:
    """Return what makes the native decoder of Avro."""
    return lambda module: module.Decoder.avro(columns, plan)


def choose_reader(reference: PayloadReader, plan: Callable[[], Callable[[Any], Any]], what: str) -> PayloadReader:
    """Return the native reader if there is one for the schema, else the reference.

    `plan` may raise Unplanned; `what` names the schema in the log.
    """
    module = native.get_module()
    if module is None:
        return reference
    try:
        return NativeReader(plan()(module), reference)
    except (Unplanned, ValueError) as reason:
        _log.info("%s is decoded in Python: %s", what, reason)
        return reference


class NativeReader(PayloadReader):
    """Reads natively what it can. Raises Unplanned if the columns come out with other types."""

    piece_events = NATIVE_PIECE_EVENTS

    def __init__(self, decoder: Any, reference: PayloadReader) -> None:
        self.decoder = decoder
        self._reference = reference
        nothing = EventBuffer.of([])
        wanted = [array.type for array in reference.arrays(nothing, False, Problems())]
        self._empty = not wanted
        if not self._empty and [array.type for array in self.arrays(nothing, False, Problems())] != wanted:
            raise Unplanned("a column has a type that the native decoder cannot give exactly")

    def arrays(self, payloads: EventBuffer, padded: bool, problems: Problems) -> list[pa.Array]:
        batch, unread = self.decoder.decode(*payloads.octets(), padded)
        accepted: list[pa.Array] = [] if self._empty else pa.record_batch(batch).columns
        if unread is None:
            return accepted
        return merge_with_reference(
            accepted, np.frombuffer(unread, np.int64), self._reference, payloads, padded, problems
        )


def merge_with_reference(
    accepted: list[pa.Array],
    positions: EventPositions,
    reference: PayloadReader,
    payloads: EventBuffer,
    padded: bool,
    problems: Problems,
) -> list[pa.Array]:
    """Put the columns of the payloads that were accepted, in order, together with those that the reference reads."""
    others = _read_by_reference(reference, payloads, positions, padded, problems)
    there = np.ones(len(payloads), np.bool_)
    there[positions] = False
    order = np.empty(len(payloads), np.int64)
    order[there] = np.arange(len(payloads) - len(positions))
    order[positions] = np.arange(len(payloads) - len(positions), len(payloads))
    indices = pa.array(order)
    return [
        pa.concat_arrays([ours, *(piece[column] for piece in others)]).take(indices)
        for column, ours in enumerate(accepted)
    ]


def _read_by_reference(
    reference: PayloadReader, payloads: EventBuffer, positions: EventPositions, padded: bool, problems: Problems
) -> list[list[pa.Array]]:
    pieces = []
    for begin in range(0, len(positions), PIECE_EVENTS):
        here = positions[begin : begin + PIECE_EVENTS]
        found = Problems()
        pieces.append(reference.arrays(payloads.take(here), padded, found))
        for position, reason in found.reasons.items():
            problems.add(int(here[position]), reason)
    return pieces


NativeWriter = Callable[[pa.Array], "pa.LargeBinaryArray | None"]
"""Writes the payload of each value; None if the encoder in Python is to do it."""


def make_json_writer(plan: Callable[[], Spec], header: bytes) -> NativeWriter | None:
    """Return what writes JSON documents, `header` before each; None without a native encoder for the schema.

    `plan` may raise Unplanned.
    """
    module = native.get_module()
    if module is None:
        return None
    try:
        encoder = module.JsonEncoder(plan(), header)
    except (Unplanned, ValueError) as reason:
        _log.info("JSON is encoded in Python: %s", reason)
        return None

    def write(values: pa.Array) -> pa.LargeBinaryArray | None:
        written = encoder.encode(values)
        return None if written is None else pa.array(written)

    return write
