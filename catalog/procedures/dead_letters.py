"""The procedure that writes dead letters to a table, as rows, once they can be decoded.

The ledger of the table that gets the rows records what was replayed: the position in the dead-letter stream, in one
step with the transaction that holds the rows. So a letter is replayed once, even if the driver dies. Earlier letters
show which of the later ones are repeated, so nothing may be missing at the start of the stream since the first replay.
A dead-letter stream that was created again is another stream, of which nothing was replayed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import BooleanType, LongType, StringType, StructType

from pyspark_pravega.client.controller.transaction_calls import TransactionStatus
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.insert.epoch_commit import commit_epoch, finish_recorded
from pyspark_pravega.datasource.insert.insert import Insert, write_here
from pyspark_pravega.datasource.insert.ledger import Epoch, EpochRecorder, LedgerRow, read_ledger
from pyspark_pravega.datasource.insert.prepare import write_settings
from pyspark_pravega.datasource.kinds.opening import find_table_kind, open_table
from pyspark_pravega.datasource.positions.points_in_time import find_end_now
from pyspark_pravega.datasource.scan.dead_letter_stream import COLUMNS, check_target
from pyspark_pravega.datasource.scan.scan_request import ScanRequest
from pyspark_pravega.datasource.tables.loading import load_table
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.datasource.tables.writer_schemas import WriterSchemas
from pyspark_pravega.errors import DataLossError, MalformedEventError
from pyspark_pravega.formats.core.arrow_types import arrow_schema, replace_char_types
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.sql import options as o

from ..metadata.metadata_table import Rows, column
from ..storage.catalogs import Catalog
from .procedure import DRY_RUN, TABLE, Call, flag, parameter, procedure

_SKIP_BAD = flag("skip_bad", "whether letters that still cannot be decoded are left out for good")
_PLACE = StructType([field for field in COLUMNS if field.name in ("stream", "segment", "offset")])
_READ = StructType([*_PLACE, COLUMNS["event"]])
_DECODED_BYTES, _DECODED_LETTERS = 4 << 20, 1024
"""The most bytes and letters that are decoded together; a larger letter is decoded alone."""
_Offsets: TypeAlias = npt.NDArray[np.int64]
_NOT_KEPT = "it was too large to be kept in a dead letter"


@dataclass(frozen=True)
class _LetterRange:
    """Letters between two positions of the dead-letter stream, to be replayed under this number of the writer.

    `head` is where the stream began when its first letters were replayed.
    """

    number: int
    head: StreamCut
    start: StreamCut
    end: StreamCut

    def to_text(self) -> str:
        """Return what the ledger keeps besides the number."""
        return f"{self.head.to_text()} {self.end.to_text()}"


class _Letters:
    """The letters of one table in a range, except those replayed before. Each iteration of `rows` reads them again."""

    def __init__(self, catalog: Catalog, source: StreamTable, letters: StreamTable, part: _LetterRange) -> None:
        self._catalog, self._source, self._letters, self._part = catalog, source, letters, part
        self.columns = replace_char_types(source.schema)
        resolve = WriterSchemas(catalog.pravega.config, source.stream, source.framing)
        if source.framing == "registry" and catalog.pravega.config.registry_uri is not None:
            resolve.ask(catalog.pravega.registry(source.stream.scope))
        self._decoder = source.make_decoder(source.schema, resolve)
        self.found = self.good = self.bad = 0
        self.reason: str | None = None
        """Why the first bad letter cannot be decoded."""

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the letters that can be decoded, and count all letters."""
        self.found, self.good, self.bad, self.reason = 0, 0, 0, None
        schema = arrow_schema(self.columns)
        for letters in self._chunks():
            self.found += len(letters)
            kept = [letter for letter in letters if letter["event"] is not None]
            for letter in letters:
                if letter["event"] is None:
                    self._count_bad(letter, _NOT_KEPT)
            if not kept:
                continue
            rows, bad_events = self._decoder.decode_valid(EventBuffer.of([letter["event"] for letter in kept]))
            for bad in bad_events:
                self._count_bad(kept[bad.index], bad.reason)
            self.good += rows.num_rows
            if rows.num_rows:
                arrays = [rows.column(field.name).cast(field.type) for field in schema]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _count_bad(self, letter: Mapping[str, Any], reason: str) -> None:
        self.bad += 1
        self.reason = self.reason or f"the event at offset {letter['offset']} of segment {letter['segment']}: {reason}"

    def _chunks(self) -> Iterator[list[dict[str, Any]]]:
        chunk: list[dict[str, Any]] = []
        size = 0
        for letter in self._read_new():
            length = len(letter["event"] or b"")
            if chunk and (size + length > _DECODED_BYTES or len(chunk) == _DECODED_LETTERS):
                yield chunk
                chunk, size = [], 0
            chunk.append(letter)
            size += length
        if chunk:
            yield chunk

    def _read_new(self) -> Iterator[dict[str, Any]]:
        """Yield each bad event once: a query that runs again writes its letter again."""
        if self._part.start == self._part.end:
            return
        letters: dict[str, set[int]] = {}
        for letter in self._read(_READ, self._part.start, self._part.end):
            offset, offsets = letter["offset"], letters.setdefault(letter["segment"], set())
            if offset not in offsets and not _has_offset(self._replayed.get(letter["segment"]), offset):
                offsets.add(offset)
                yield letter

    @cached_property
    def _replayed(self) -> dict[str, _Offsets]:
        """Return the offsets of the letters before the range, by segment, with 8 bytes each."""
        places: dict[str, array[int]] = {}
        if self._part.head != self._part.start:
            for letter in self._read(_PLACE, self._part.head, self._part.start):
                places.setdefault(letter["segment"], array("q")).append(letter["offset"])
        return {segment: np.unique(np.frombuffer(offsets, np.int64)) for segment, offsets in places.items()}

    def _read(self, columns: StructType, start: StreamCut, end: StreamCut) -> Iterator[dict[str, Any]]:
        read = {o.START_STREAM_CUT.key: start.to_text(), o.END_STREAM_CUT.key: end.to_text()}
        # Whatever properties the table has: each letter counts, and a bad one is an error.
        letters = open_table(self._catalog.pravega, self._letters, self._catalog.options(read=read))
        source = str(self._source.stream)
        for batch in letters.plan_scan(ScanRequest(columns)).reader.read_all():
            yield from (letter for letter in batch.to_pylist() if letter["stream"] == source)


def _has_offset(offsets: _Offsets | None, offset: int) -> bool:
    """Return whether an offset is among others, which are sorted."""
    if offsets is None:
        return False
    index = int(np.searchsorted(offsets, offset))
    return index < len(offsets) and int(offsets[index]) == offset


@procedure(
    "Writes the dead letters of a table that can be decoded now to a table, in one INSERT, each of them once.",
    (
        parameter("table", "the table whose events they are, as '<namespace>.<table>'"),
        parameter("dead_letter", "the table of dead letters"),
        parameter("into", "the table that gets the rows; by default the one whose events they are", optional=True),
        _SKIP_BAD,
        DRY_RUN,
    ),
    (
        column("letters", LongType(), "bad events of the table that were not replayed before", nullable=False),
        column("rows", LongType(), "of those that can be decoded now", nullable=False),
        column("bad", LongType(), "those that still cannot", nullable=False),
        column("reason", StringType(), "why the first of these cannot"),
        column("replayed", BooleanType(), "whether the rows were written", nullable=False),
    ),
    "READ on both streams, READ_UPDATE on the one that gets the rows and on `pyspark-pravega-commits` of its scope",
)
def replay_dead_letter(call: Call) -> Rows:
    pravega = call.catalog.pravega
    source = _load_rows_table(call, TABLE.name)
    into = _load_rows_table(call, "into") if "into" in call.arguments else source
    dead_letter = call.find_stream("dead_letter")
    check_target(pravega, dead_letter)
    letters = load_table(pravega, dead_letter).table
    writer, log = f"replay of {dead_letter} for {source.stream}", CommitLog(pravega, into.stream)
    dry_run, skip_bad = call.is_set(DRY_RUN), call.is_set(_SKIP_BAD)
    part = _find_next_range(call.catalog, into, log, letters, writer, dry_run=dry_run)
    original = _Letters(call.catalog, source, letters, part)
    options = call.catalog.options()
    # Their event times are late: noted, they would hold back watermarks like those of a writer that is still active.
    prepared = replace(open_table(pravega, into, options).prepare_insert(original.columns).table, event_time=None)
    for _batch in original.rows():
        pass  # finds the bad ones before anything is written
    if original.bad and not skip_bad and not dry_run:
        raise MalformedEventError(
            f"{original.bad:,} of {original.found:,} dead letters still cannot be decoded, so none was replayed. The "
            f"first is {original.reason}. Change the table so that they can be decoded, or pass skip_bad => true to "
            "leave them out."
        )
    epoch = Epoch(writer, part.number, None, part.to_text())
    if original.good and not dry_run:
        insert = Insert.begin(pravega, prepared, write_settings(options))
        commit = partial(commit_epoch, insert, epoch=epoch, log=log)
        write_here(insert, original.columns, original.rows(), commit)
    elif original.found and not dry_run:
        # All of them are left out for good.
        log.make_ready()
        entry = EpochRecorder(into.stream, epoch, 0)
        log.replace_companion(entry.number, entry.make_value_when_passed)
    yield original.found, original.good, original.bad, original.reason, original.good > 0 and not dry_run


def _load_rows_table(call: Call, name: str) -> StreamTable:
    table = load_table(call.catalog.pravega, call.find_stream(name)).table
    find_table_kind(table).check_supports("replay_dead_letter", f"stream {table.stream}", table)
    return table


def _find_next_range(
    catalog: Catalog, into: StreamTable, log: CommitLog, letters: StreamTable, writer: str, *, dry_run: bool
) -> _LetterRange:
    """Return the range after the one that was replayed last. A replay that was being committed is completed first.

    Raises DataLossError if letters before the range are gone.
    """
    pravega, stream = catalog.pravega, letters.stream
    head = pravega.controller.head(stream)
    row = next((row for row in read_ledger(log) if row.writer == writer), None)
    last = None if row is None else _find_last_replayed(catalog, into, log, row, dry_run)
    end = find_end_now(pravega, stream).cut
    number = 0 if row is None else row.epoch + 1
    if last is None or not pravega.known_streams.is_cut(last[1]):
        return _LetterRange(number, head, head, end)  # nothing was replayed, or only from an older stream of this name
    if last[0] != head:
        raise DataLossError(
            f"Dead letters have been removed from the start of stream {stream} since some were replayed to stream "
            f"{into.stream}. Only the letters themselves show what was replayed: without them, an event whose letter "
            "is written again would be replayed again. Nothing was replayed. Decode the remaining letters with "
            "SELECT and INSERT; to start over, drop the dead-letter table. A query with the option 'dead-letter' makes "
            "it again, and so does ALTER TABLE ... SET TBLPROPERTIES with the property."
        )
    return _LetterRange(number, head, last[1], end)


def _find_last_replayed(
    catalog: Catalog, into: StreamTable, log: CommitLog, row: LedgerRow, dry_run: bool
) -> tuple[StreamCut, StreamCut] | None:
    """Return the head and the end of the last range that was replayed, or None."""
    if dry_run:
        state = None
        if not row.done and row.transaction is not None:
            state = catalog.pravega.controller.transaction_status(into.stream, row.transaction)
        ended = state not in (TransactionStatus.ABORTING, TransactionStatus.ABORTED)
    else:
        ended = finish_recorded(catalog.pravega, into, write_settings(catalog.options()), log, row)
    replayed = [number for number in row.batches if ended or number < row.epoch]
    if not replayed:
        return None
    head, end = row.batches[max(replayed)].split()
    return StreamCut.from_text(head), StreamCut.from_text(end)
