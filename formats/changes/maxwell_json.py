"""Reads Maxwell's events (changes of MySQL as JSON) as the changes that Debezium's events are.

| `type` | change |
|---|---|
| insert, update, delete | c, u, d |
| bootstrap-insert | r |
| bootstrap-start, bootstrap-complete, table-..., database-... | none |

`old` has only the former values of changed columns, so `before` of an update is `data` with them. Times are texts
without a zone, taken as UTC. Positions need Maxwell's `output_binlog_position`. `encodings.encoded_values` defines
what columns accept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pyspark.sql.types import StructType

from pyspark_pravega.errors import UnsupportedOperationError

from ..core.batches import UniformDecoder
from ..core.columns import describe_kind
from ..core.events import EventBuffer, EventPositions
from ..core.format import NO_SETTINGS, Decoder, Encoder, Layout, Resolve, Settings
from ..core.framing import Undecodable
from ..json.documents import DocumentParser
from ..json.format import JsonFormat
from .changelog_columns import NO_CHANGE, Change, ChangeColumns, ChangeReader, SourceEncoding
from .encodings.settings import Rules
from .feed import CREATE, DEFAULT_UNAVAILABLE_VALUE, DELETE, INFER_COLUMNS, MAXWELL_JSON, READ, UPDATE, find_advice
from .newest_schema import sample_columns

_OPERATIONS = {"insert": CREATE, "update": UPDATE, "delete": DELETE, "bootstrap-insert": READ}
_NO_CHANGE = re.compile(r"bootstrap-(start|complete)|(table|database)-.*")
_POSITION = re.compile(r"(.+):(\d{1,18})")


class MaxwellJsonFormat(JsonFormat):
    """The format of Maxwell's changes. The rows have a JSON schema in the registry."""

    name = "maxwell-json"
    changes = True

    def decoder(self, layout: Layout, resolve: Resolve | None = None) -> Decoder:
        return UniformDecoder(self.registry_format, layout.columns, resolve, _MaxwellReader(layout.columns))

    def encoder(self, layout: Layout, encoding_id: int | None = None, codec: str = "") -> Encoder:
        raise UnsupportedOperationError(
            "rows cannot be written in format maxwell-json, whose events only Maxwell makes; use format debezium-json"
        )

    def infer_columns(self, tails: Iterable[EventBuffer], settings: Settings) -> StructType | None:
        """Return the columns of all values with `infer-columns`=`sample`; None otherwise, or if there are no values."""
        if settings.get(INFER_COLUMNS) != "sample":
            return None
        reader = _MaxwellReader(StructType([]))
        images = [reader.try_change(payload)[1:3] for events in tails for payload in events.payloads()]
        rows = [image for pair in images for image in pair if image]
        return sample_columns(reversed(rows), [DEFAULT_UNAVAILABLE_VALUE]) if rows else None

    def truncate_candidates(self, events: EventBuffer) -> EventPositions:
        """Return no event: Maxwell reports truncations only as statements."""
        return EventBuffer.of([]).starts


class _MaxwellReader(ChangeReader):
    def __init__(self, schema: StructType) -> None:
        encoding = SourceEncoding(None, None, Rules.of(NO_SETTINGS, "maxwell"))
        super().__init__(ChangeColumns(schema, None, encoding.rules.placeholder, lambda kind: encoding))
        self._documents = DocumentParser(self.columns.wants_numbers, signed_zeros=bool(schema.fields))

    def change(self, payload: bytes, padded: bool) -> Change:
        """Parse an event. Raises Undecodable for a payload that is not a Maxwell event."""
        event = self._documents.document(self._documents.text(payload))
        if type(event) is not dict:
            raise Undecodable(f"it should be a Maxwell event but is {describe_kind(event)}")
        kind = event.get("type")
        operation = _OPERATIONS.get(kind) if type(kind) is str else None
        if operation is None:
            if type(kind) is str and _NO_CHANGE.fullmatch(kind):
                return NO_CHANGE
            advice = find_advice(event, MAXWELL_JSON)
            if advice is not None:
                raise Undecodable(f"it is not a Maxwell event: {advice}")
            raise Undecodable(f"its 'type' is {str(kind)[:30]!r}, which Maxwell does not have")
        data, old = event.get("data"), event.get("old") or {}
        if type(data) is not dict or type(old) is not dict:
            raise Undecodable("its 'data' and 'old' should be objects")
        seconds = event.get("ts")
        time = seconds * 1_000_000 if type(seconds) is int else None
        source = _make_source(event)
        if operation == DELETE:
            return operation, data, None, source, time, "maxwell"
        before = {**data, **old} if operation == UPDATE else None
        return operation, before, data, source, time, "maxwell"


def _make_source(event: dict[str, Any]) -> dict[str, Any]:
    """Return everything except the row, with the position as Debezium's MySQL connector writes it."""
    source: dict[str, Any] = {key: value for key, value in event.items() if key not in ("data", "old", "type")}
    source["connector"] = "maxwell"
    seconds = event.get("ts")
    if type(seconds) is int:
        source["ts_ms"] = seconds * 1000
    match = _POSITION.fullmatch(str(event.get("position")))
    if match is not None:
        offset = event.get("xoffset")
        source |= {"file": match[1], "pos": int(match[2]), "row": offset}
    return source
