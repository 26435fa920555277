"""Turns the events of one segment into rows: chooses them by type, decodes them, and treats the bad ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.client.registry.registry_types import VersionInfo
from pyspark_pravega.client.segments.event_frames import HEADER_BYTES
from pyspark_pravega.client.segments.range_reader import Window
from pyspark_pravega.errors import MalformedEventError, SchemaNotFoundError
from pyspark_pravega.formats.core.arrow_types import arrow_schema, make_record_batch
from pyspark_pravega.formats.core.batches import Overfull, limit_expansion
from pyspark_pravega.formats.core.events import EventBuffer, EventPositions
from pyspark_pravega.formats.core.format import BadEvent, Decoder
from pyspark_pravega.formats.core.framing import read_encoding_ids

from ..lake.lake_columns import ENCODING, ERROR, LENGTH, OFFSET, RAW
from ..tables.bad_events import DROPMALFORMED, FAILFAST, PERMISSIVE
from ..tables.hidden_columns import CHANGE_COLUMNS, HIDDEN_COLUMNS
from .counts import Counts, make_null_counts
from .dead_letter_stream import DeadLetters, Letter, make_letter, shorten_reason
from .event_plan import EventScanPlan
from .places import Span, make_event_pointers


@dataclass(frozen=True)
class _ChosenEvents:
    """The table's events in one batch, and their encoding ids (-1: none), if these are needed.

    `base` is the offset in the segment of the first byte of the events' buffer. Events of a lake have `places` instead,
    their own offsets, if these are read.
    """

    events: EventBuffer
    base: int
    ids: EventPositions | None
    places: EventPositions | None = None

    @classmethod
    def of_lake(cls, rows: pa.RecordBatch, needs_ids: bool) -> _ChosenEvents:
        """Return the events of a lake. They have their bytes if they are changes, or could not be decoded.

        Without RAW, only their number counts.
        """
        if RAW not in rows.schema.names:
            nothing = np.zeros(len(rows), np.int64)
            return cls(EventBuffer(b"", nothing, nothing), 0, None)
        raw = pc.fill_null(rows.column(RAW), b"")
        lengths = rows.column(LENGTH).to_numpy(zero_copy_only=False).astype(np.int64)
        events = replace(EventBuffer.of_arrow(raw), lengths=lengths)
        ids = pc.fill_null(rows.column(ENCODING), -1).to_numpy(zero_copy_only=False) if needs_ids else None
        places = rows.column(OFFSET).to_numpy(zero_copy_only=False) if OFFSET in rows.schema.names else None
        return cls(events, 0, ids, places)

    @cached_property
    def offsets(self) -> EventPositions:
        """Return the offsets of the events in the segment."""
        return self.base + self.events.starts - HEADER_BYTES if self.places is None else self.places


@dataclass(frozen=True)
class _DecodedEvents:
    """The data columns, the number of the event of each row, and the bad events."""

    columns: pa.RecordBatch | None
    rows: EventPositions
    bad: list[BadEvent]


def needs_contents(plan: EventScanPlan) -> bool:
    """Return whether a scan needs the contents of its events."""
    mode, requested, names = plan.bad_events.mode, set(plan.columns.fieldNames()), set(plan.schema.fieldNames())
    decoded = mode == DROPMALFORMED or bool(requested & names) or (mode == PERMISSIVE and "_error" in names)
    return bool(requested) and decoded


def make_event_decoder(plan: EventScanPlan) -> Decoder | None:
    """Return the decoder of a scan's events, which slices can share; None if their contents are not needed."""
    if not needs_contents(plan):
        return None
    decoder = plan.table.make_decoder(plan.columns, plan.writer_schemas)
    limit_expansion(decoder, plan.max_expansion)
    return decoder


class SliceDecoder:
    """Makes the Arrow batches of one segment."""

    def __init__(
        self,
        plan: EventScanPlan,
        decoder: Decoder | None,
        segment: str,
        letters: DeadLetters | None = None,
        span: Span | None = None,
    ) -> None:
        """Decode by `decoder`, the plan's `make_event_decoder`.

        `letters` takes bad events, if the plan has a dead-letter stream. All events lie in the `span`, if there is one.
        """
        self._span = span
        self._places = None if span is None or span.every else plan.places
        self._plan = plan
        self._segment = segment
        self._letters = letters
        self._schema: pa.Schema = arrow_schema(plan.output)
        self._decoder = decoder
        names = set(plan.schema.fieldNames())
        self._columns = set(plan.columns.fieldNames())
        self._needs_ids = plan.table.framed and (
            plan.table.event_type is not None
            or letters is not None
            or bool(names & {"_encoding_id", "_schema_version"})
        )
        self._position = 0
        self.bad = 0
        """The number of bad events so far."""
        self.left: int | None = None
        """How many rows are still wanted; None: all."""

    @property
    def fails_on_bad_events(self) -> bool:
        """Return whether a bad event ends the query: not if nothing of events is decoded."""
        return self._plan.bad_events.mode == FAILFAST and needs_contents(self._plan)

    @property
    def needs_places(self) -> bool:
        """Return whether rows depend on the places or the ids of events."""
        plan, hidden = self._plan, set(self._plan.schema.names) & HIDDEN_COLUMNS.keys() - self._columns
        of_plan = plan.places is not None or plan.versions is not None or plan.bad_events.mode != FAILFAST
        return self._needs_ids or of_plan or bool(hidden)

    def batches(self, window: Window, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the window's events from `first` to `last` - 1, at most as many as are `left`.

        If bad events are counted, further batches hold their number. Raises MalformedEventError in the mode that fails.
        """
        pending = [(first, last)]
        while pending and self.left != 0:
            first, last = pending.pop()
            try:
                batches = self._decode_batches(window, first, last)
            except Overfull:
                middle = (first + last) // 2
                pending += [(middle, last), (first, middle)]
            else:
                yield from batches

    def _decode_batches(self, window: Window, first: int, last: int) -> list[pa.RecordBatch]:
        limit = self.left
        self._position = window.base + int(window.starts[last - 1] + window.lengths[last - 1])
        chosen = self._choose(window, first, last)
        if limit is not None and self._plan.bad_events.every_event_is_a_row and limit < len(chosen.events):
            ids = None if chosen.ids is None else chosen.ids[:limit]
            chosen = _ChosenEvents(chosen.events.part(0, limit), chosen.base, ids)
        return self._make_batches(chosen, self._decode(chosen))

    def convert(self, rows: pa.RecordBatch, names: Sequence[str]) -> list[pa.RecordBatch]:
        """Return the batches of a lake's rows as `batches` does of events. `names` are the columns of the table."""
        chosen, plan = _ChosenEvents.of_lake(rows, self._needs_ids), self._plan
        if plan.places is not None:
            wanted = plan.places.mask(self._segment, chosen.offsets, chosen.events.lengths)
            if not wanted.all():
                return self.convert(rows.filter(pa.array(wanted)), names) if wanted.any() else []
        errors = rows.column(ERROR)
        # Where nothing is decoded, a bad event is a row like others.
        is_bad = errors.null_count < len(rows) and needs_contents(plan)
        numbers_of_bad = np.flatnonzero(errors.is_valid()).tolist() if is_bad else []
        bad = [BadEvent(index, errors[index].as_py()) for index in numbers_of_bad]
        if bad and self.fails_on_bad_events:
            raise self._make_malformed_error(chosen, bad[0])
        columns, numbers = rows.select(names) if names else None, np.arange(len(rows))
        if bad and plan.bad_events.mode == DROPMALFORMED:
            numbers = np.flatnonzero(errors.is_null())
            columns = None if columns is None else columns.take(pa.array(numbers))
        return self._make_batches(chosen, _DecodedEvents(columns, numbers, bad))

    def _make_batches(self, chosen: _ChosenEvents, decoded: _DecodedEvents) -> list[pa.RecordBatch]:
        limit = self.left
        if limit is not None and limit < len(decoded.rows):
            decoded = _keep_first_rows(decoded, limit)
        if limit is not None:
            self.left = limit - len(decoded.rows)
        return self._finish_batches(chosen, decoded)

    def _finish_batches(self, chosen: _ChosenEvents, decoded: _DecodedEvents) -> list[pa.RecordBatch]:
        """Write the bad events to the dead-letter stream; return the rows, and then the number of bad events."""
        self.bad += len(decoded.bad)
        if decoded.bad and self._letters is not None:
            self._letters.write([self._make_letter(chosen, bad) for bad in decoded.bad])
        batches = []
        if len(decoded.rows):
            batches.append(self._batch(chosen, decoded))
        if decoded.bad and self._plan.counted:
            batches.append(self.report(Counts(len(decoded.bad))))
        return batches

    def replace_unreadable(self, offset: int, end: int, reason: str) -> list[pa.RecordBatch]:
        """Return the batches for the bytes from `offset` to `end`, in which no event can be found.

        They count as one bad event, without its bytes. Raises MalformedEventError in the mode that fails.
        """
        mode = self._plan.bad_events.mode
        if mode == FAILFAST:
            raise MalformedEventError(
                f"Segment {self._segment} cannot be read from offset {offset} on: {reason}. It is unknown where "
                f"the next event begins. With the read option 'mode' set to '{PERMISSIVE}' or '{DROPMALFORMED}', all "
                f"bytes up to {end} count as one bad event; to read what follows, set a 'start-stream-cut' after it."
            )
        bad = BadEvent(0, f"{reason}; the {end - offset:,} bytes up to offset {end:,} are left out")
        events = EventBuffer.of([b""])
        chosen = _ChosenEvents(events, offset + HEADER_BYTES, np.array([-1]) if self._needs_ids else None)
        rows = np.arange(1 if mode == PERMISSIVE and self._is_wanted(chosen) else 0)
        return self._finish_batches(chosen, _DecodedEvents(None, rows, [bad]))

    def _is_wanted(self, chosen: _ChosenEvents) -> bool:
        if self._span is not None and not self._span.first <= chosen.offsets[0] <= self._span.last:
            return False
        if self._places is None:
            return True
        return bool(self._places.mask(self._segment, chosen.offsets, chosen.events.lengths).all())

    def _choose(self, window: Window, first: int, last: int) -> _ChosenEvents:
        events = EventBuffer(window.data, window.starts[first:last], window.lengths[first:last])
        chosen = _ChosenEvents(events, window.base, None)
        if self._places is not None:
            events = events.take(np.flatnonzero(self._places.mask(self._segment, chosen.offsets, events.lengths)))
            chosen = _ChosenEvents(events, window.base, None)
        if not self._needs_ids:
            return chosen
        ids, _ = read_encoding_ids(events, self._plan.table.framing)
        if self._plan.table.event_type is None:
            return replace(chosen, ids=ids)
        others = [id for id in np.unique(ids[ids >= 0]).tolist() if self._is_of_another_type(id)]
        indices = np.flatnonzero(~np.isin(ids, others))
        return _ChosenEvents(events.take(indices), window.base, ids[indices])

    def _is_of_another_type(self, encoding_id: int) -> bool:
        try:
            return self._plan.writer_schemas.encoding(encoding_id).schema.type != self._plan.table.event_type
        except SchemaNotFoundError:
            return False  # its type is unknown, so that it is a bad event of every type

    def _decode(self, chosen: _ChosenEvents) -> _DecodedEvents:
        rows = np.arange(len(chosen.events))
        if self._decoder is None:
            return _DecodedEvents(None, rows, [])
        if self._plan.bad_events.mode == FAILFAST:
            try:
                return _DecodedEvents(self._decoder.decode(chosen.events), rows, [])
            except BadEvent as bad:
                raise self._make_malformed_error(chosen, bad) from None
        columns, bad_events = self._decoder.decode_valid(chosen.events)
        if not bad_events:
            return _DecodedEvents(columns, rows, [])
        good = np.ones(len(rows), np.bool_)
        good[[bad.index for bad in bad_events]] = False
        if self._plan.bad_events.mode == DROPMALFORMED:
            return _DecodedEvents(columns, np.flatnonzero(good), bad_events)
        # A null index gives a null in every column.
        indices = pa.array(np.cumsum(good) - 1, pa.int64(), mask=~good)
        arrays = [column.take(indices) for column in columns.columns]
        nullable = pa.schema([field.with_nullable(True) for field in columns.schema])
        return _DecodedEvents(pa.RecordBatch.from_arrays(arrays, schema=nullable), rows, bad_events)

    def _make_malformed_error(self, chosen: _ChosenEvents, bad: BadEvent) -> MalformedEventError:
        event = chosen.events.part(bad.index, bad.index + 1)
        return MalformedEventError(
            f"The event at offset {int(chosen.offsets[bad.index])} of segment {self._segment} cannot be decoded: "
            f"{bad.reason}. {self._explain_later_version(event)}Its bytes can be read with "
            "spark.read.format('pravega').option('format', 'raw'). To read the other events, set the read option "
            f"'mode' to '{PERMISSIVE}' or '{DROPMALFORMED}', or 'dead-letter' to a stream."
        )

    def _explain_later_version(self, event: EventBuffer) -> str:
        """Return a sentence if the event's schema is newer than the one the query reads with, else ""."""
        table = self._plan.table
        if not table.framed or table.schema_version is None:
            return ""
        written = self._plan.writer_schemas.known(int(read_encoding_ids(event)[0][0]))  # the decoder has asked for it
        read = VersionInfo.from_json(table.schema_version)
        if written is None or written.version.type != read.type or written.version.version <= read.version:
            return ""
        return (
            f"It was written with version {written.version.version} of the table's schema, but the query reads with "
            f"version {read.version}: columns were changed after the query began, or after the 'schema-version' that "
            "it names. Start the query again to read with the newest version. "
        )

    def _make_letter(self, chosen: _ChosenEvents, bad: BadEvent) -> Letter:
        encoding_id = None if chosen.ids is None else int(chosen.ids[bad.index])
        event = bytes(chosen.events.payload(bad.index))
        return make_letter(self._segment, int(chosen.offsets[bad.index]), bad, event, encoding_id)

    def _batch(self, chosen: _ChosenEvents, decoded: _DecodedEvents) -> pa.RecordBatch:
        count, versioned = len(decoded.rows), self._plan.versions is not None
        arrays = []
        for field in list(self._schema)[: len(self._plan.schema)]:
            if field.name in self._columns and decoded.columns is not None:
                column = decoded.columns.column(field.name)
                # A struct may be decoded completely, to find bad events, and only its requested members are kept.
                arrays.append(column if column.type.equals(field.type) else column.cast(field.type))
            elif versioned and field.name in CHANGE_COLUMNS.names and field.name not in self._columns:
                arrays.append(self._change(field, chosen.offsets[decoded.rows]))
            elif field.name in HIDDEN_COLUMNS and field.name not in self._columns:
                arrays.append(self._make_hidden_column(field, chosen, decoded))
            else:
                arrays.append(pa.nulls(count, field.type))
        if self._plan.counted:
            arrays.append(make_null_counts(count))
        if self._plan.positioned:
            # A row's position is where the next row begins, or the end of all events for the last row.
            arrays.append(pa.array(np.append(chosen.offsets[decoded.rows][1:], self._position)))
        return make_record_batch(arrays, self._schema, count)

    def _change(self, field: pa.Field, offsets: EventPositions) -> pa.Array:
        """Make a column of changes: every event of an ordinary table is an inserted row."""
        assert self._plan.versions is not None
        if field.name == "_change_type":
            return pa.repeat("insert", len(offsets))
        versions = self._plan.versions[self._segment]
        indices = np.searchsorted(np.array(versions.ends), offsets, side="right")
        if field.name == "_commit_version":
            numbers = np.array(versions.numbers, np.int64)[indices]
            return pa.array(numbers, mask=numbers < 0)
        times = np.array(versions.times, np.int64)[indices]
        return pa.array(times, mask=times < 0).cast(field.type)

    def report_reached(self, position: int) -> pa.RecordBatch:
        """Return a batch without rows of the table, which only says how far a positioned scan has read."""
        self._position = position
        return self.report(Counts())

    def report(self, counts: Counts, notes: Sequence[int] = ()) -> pa.RecordBatch:
        """Return a batch without rows of the table, which only reports counts, and notes for the driver."""
        return counts.batch(self._schema, self._position if self._plan.positioned else None, notes)

    def _make_hidden_column(self, field: pa.Field, chosen: _ChosenEvents, decoded: _DecodedEvents) -> pa.Array:
        rows = decoded.rows
        offsets = chosen.offsets[rows]
        match field.name:
            case "_segment":
                return pa.repeat(self._segment, len(rows))
            case "_offset":
                return pa.array(offsets, pa.int64())
            case "_event_pointer":
                return make_event_pointers(self._segment, offsets, chosen.events.lengths[rows])
            case "_error":
                reasons: list[str | None] = [None] * len(chosen.events)
                for bad in decoded.bad:
                    reasons[bad.index] = shorten_reason(bad.reason)
                return pa.array([reasons[row] for row in rows.tolist()], pa.string())
            case "_raw":
                return chosen.events.take(rows).to_arrow()
            case "_event_time" | "_event_time_upper" as name:
                assert self._plan.times is not None
                times = self._plan.times[self._segment]
                return (times.lower if name == "_event_time" else times.upper).column(offsets, field.type)
            case "_encoding_id" | "_schema_version" as name:
                return self._ids(name, chosen, rows)
            case name:
                raise NotImplementedError(f"no values are made for the hidden column {name}")

    def _ids(self, name: str, chosen: _ChosenEvents, rows: EventPositions) -> pa.Array:
        if chosen.ids is None or (name == "_schema_version" and self._plan.table.framing != "registry"):
            return pa.nulls(len(rows), pa.int32())  # an id of Confluent's has a version in each of its subjects
        ids = chosen.ids[rows]
        if name == "_encoding_id":
            return pa.array(ids, pa.int32(), mask=ids < 0)
        versions: Any = np.full(len(ids), -1, np.int64)
        for encoding_id in np.unique(ids[ids >= 0]).tolist():
            try:
                version = self._plan.writer_schemas.encoding(encoding_id).version.version
            except SchemaNotFoundError:
                continue
            versions[ids == encoding_id] = version
        return pa.array(versions, pa.int32(), mask=versions < 0)


def _keep_first_rows(decoded: _DecodedEvents, count: int) -> _DecodedEvents:
    """Keep the first rows, and the bad events before the last of them: later ones were not requested."""
    rows = decoded.rows[:count]
    end = int(rows[-1]) if count else 0
    columns = None if decoded.columns is None else decoded.columns.slice(0, count)
    return _DecodedEvents(columns, rows, [bad for bad in decoded.bad if bad.index < end])
