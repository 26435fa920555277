"""Reads Debezium's envelopes without a schema by the native decoder of JSON, those of one connector together."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...core.events import EventBuffer, EventPositions
from ..changelog_columns import IMAGES, LetterCase
from ..native_reader import NativeEnvelopes


class ConnectorEnvelopes(NativeEnvelopes):
    """Envelopes of one connector, whose encoding their images have."""

    def __init__(
        self, decoder: Any, connector: str, letter_case: LetterCase, note_connector: Callable[[str], None]
    ) -> None:
        """Take a decoder of the crate. `note_connector` gets the connector of the next events if it is another one."""
        super().__init__(decoder)
        self._connector = connector
        self._letter_case = letter_case
        self._note_connector = note_connector

    def find_plain(self, rows: pa.RecordBatch, read: EventPositions, events: EventBuffer) -> npt.NDArray[np.bool_]:
        """Return which envelopes are changes of the connector, and name the table's columns as the table does."""
        plain = super().find_plain(rows, read, events)
        plain &= self._is_of_connector(rows)
        empty = np.zeros(len(rows), np.bool_)
        for name in IMAGES:
            empty |= _find_rows_of_nulls(rows.column(name))
        for number in np.flatnonzero(empty).tolist():
            plain[number] &= not self._letter_case.can_lack_all(bytes(events.payload(int(read[number]))))
        return plain

    def _is_of_connector(self, rows: pa.RecordBatch) -> Any:
        names = pc.fill_null(pc.struct_field(rows.column("source"), "connector"), "")
        if names.dictionary_encode().dictionary.to_pylist() == [self._connector]:
            return True
        same = pc.equal(names, self._connector)
        others = pc.filter(names, pc.invert(same))
        if len(others) * 2 > len(names):
            self._note_connector(others[-1].as_py())  # the next piece is probably from this one
        return same.to_numpy(zero_copy_only=False)


def _find_rows_of_nulls(image: pa.StructArray) -> Any:
    """Return which rows exist but have only nulls."""
    empty = image.is_valid().to_numpy(zero_copy_only=False)
    for number in range(image.type.num_fields):
        if not empty.any():
            break
        empty = empty & image.field(number).is_null().to_numpy(zero_copy_only=False)
    return empty if image.type.num_fields else np.zeros(len(image), np.bool_)


def guess_connector(payloads: EventBuffer) -> str:
    """Guess the connector from the first envelope that names it. It is checked for every event."""
    for payload in payloads.part(0, min(len(payloads), 16)).payloads():
        try:
            connector = json.loads(payload)["source"]["connector"]
        except (ValueError, LookupError, TypeError, RecursionError):
            continue  # the reference reports what is wrong
        if type(connector) is str and connector:
            return connector
    return ""
