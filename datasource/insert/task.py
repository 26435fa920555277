"""The task's side of an INSERT: encode, route and spool all rows, then append them to the shared transaction."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.cancellation import run_in_background
from pyspark_pravega.client.config import ClientConfig, Endpoint
from pyspark_pravega.client.registry.schema_registry import SchemaRegistry
from pyspark_pravega.client.registry.types import Encoding, VersionInfo
from pyspark_pravega.client.routing import SegmentRouter
from pyspark_pravega.client.segments.append import DEFAULT_WINDOW, SegmentAppender
from pyspark_pravega.client.segments.event_frames import frame_by_place
from pyspark_pravega.client.segments.store import SegmentStore
from pyspark_pravega.client.stream import SegmentRange
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.errors import (
    EventTooLargeError,
    InvalidRowError,
    InvalidSchemaError,
    SchemaNotFoundError,
    ServerFailedError,
    ServerTimeoutError,
    ServerUnavailableError,
    TransactionNotOpenError,
)
from pyspark_pravega.formats.core.format import find_format

from ..tables.stream_table import REGISTRY_CODECS, StreamTable
from ..workers.connections import borrow_connection
from ..workers.user_errors import concise
from .noted_times import ReachedTime
from .routes import KeyPositions, make_key_hasher
from .spool import BLOCK_BYTES, Spool

_AT_ONCE = 8
"""The most segments that store a task's events at the same time."""


class Unit(Enum):
    """The unit of work that one transaction holds."""

    INSERT = "INSERT"
    MICRO_BATCH = "micro-batch"
    PART_OF_INSERT = "INSERT in this stream"
    PART_OF_MICRO_BATCH = "micro-batch in this stream"

    @property
    def nothing_visible(self) -> str:
        """Return the sentence that says that no row of it is visible."""
        return f"No row of this {self.value} is visible"

    @property
    def next_step(self) -> str:
        """Return how to write its rows after all."""
        if self is Unit.INSERT:
            return "run it again"
        if self is Unit.PART_OF_INSERT:
            return "write the rows for this stream again"
        return "start the query again, and it continues from its checkpoint"

    @property
    def write_again(self) -> str:
        """Return both."""
        return f"{self.nothing_visible}; {self.next_step}"


@dataclass(frozen=True)
class InsertSpec:
    """The plan that all tasks of one INSERT share."""

    table: StreamTable
    config: ClientConfig
    schema: StructType
    transaction: uuid.UUID
    segments: tuple[SegmentRange, ...]
    endpoints: dict[int, Endpoint]
    token: str = field(repr=False)
    lease_ms: int
    spool_memory: int
    encoding_id: int | None
    unit: Unit


@dataclass(frozen=True)
class SegmentWrite:
    """The bytes and events that one task put into one segment of the transaction.

    `ranges` are the bytes that this attempt appended itself; `resumed` says that an earlier attempt with the same
    content had appended the rest.
    """

    bytes: int
    events: int
    ranges: tuple[tuple[int, int], ...]
    resumed: bool
    retries: int = 0


@dataclass
class InsertMessage(WriterCommitMessage):
    """A task's report: the number of rows and, by segment id, what it wrote there.

    `lost` are rows that a write of the mode `best-effort` has given up. `reached` is the event time that the rows have
    reached, in milliseconds since 1970; see `ReachedTime`. `bytes` are those of the events, with their headers, and
    `retries` the connections that were lost meanwhile, for Spark's metrics.
    """

    partition: int
    rows: int
    segments: dict[int, SegmentWrite]
    lost: int = 0
    reached: int | None = None
    bytes: int = 0
    retries: int = 0


class InsertWriter(DataSourceArrowWriter):
    """Spark's writer for tasks. Whoever began the transaction commits or aborts it."""

    def __init__(self, spec: InsertSpec) -> None:
        self._spec = spec

    @concise
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one partition.

        Raises InvalidRowError, EventTooLargeError, TransactionNotOpenError, WriterFencedError, and for servers that do
        not answer ServerUnavailableError, ServerTimeoutError or ServerFailedError.
        """
        spec = self._spec
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        with borrow_connection(spec.config) as pravega, Spool(spec.spool_memory) as spool:
            stream = spec.table.stream
            transaction = Transaction(
                pravega.controller, stream, spec.transaction, list(spec.segments), spec.lease_ms, spec.token
            )
            # The driver keeps it alive too; this covers a driver without the service, and a restart of the service.
            transaction.keep_alive()
            try:
                rows = SpooledRows(spec, partition, spool)
                rows.take_all(iterator)
                pravega.segments.seed_token(stream, spec.token)
                for segment_id in spool.segments():
                    if segment_id in spec.endpoints:
                        pravega.segments.seed_location(stream, segment_id, spec.endpoints[segment_id])
                report = rows.append(pravega.segments)
            except TransactionNotOpenError:
                raise transaction.explain_end() from None
            except (ServerFailedError, ServerTimeoutError, ServerUnavailableError) as error:
                # A commit begins only when all tasks have succeeded.
                raise type(error)(f"{error.message}. {spec.unit.write_again}") from None
            finally:
                transaction.stop()
        return report


class SpooledRows:
    """The rows of a task for one stream: encoded, routed and spooled, until they are appended to its transaction."""

    def __init__(self, spec: InsertSpec, partition: int, spool: Spool) -> None:
        table = spec.table
        self._spec, self._partition, self._spool = spec, partition, spool
        self._encoder = find_format(table.format).encoder(
            spec.schema, table.schema_text, spec.encoding_id, REGISTRY_CODECS[table.codec], table.settings
        )
        self._router = _router(spec, partition)
        self._reached = ReachedTime(table)
        self._rows = 0

    def take_all(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Take all rows. Raises InvalidRowError, EventTooLargeError, each with the name of the table."""
        with self._name_table():
            for batch in batches:
                self._take(batch)

    def take(self, batch: pa.RecordBatch) -> None:
        """Encode, route and spool rows. Raises InvalidRowError, EventTooLargeError."""
        with self._name_table():
            self._take(batch)

    @contextmanager
    def _name_table(self) -> Iterator[None]:
        try:
            yield
        except (InvalidRowError, EventTooLargeError) as error:
            spec = self._spec
            raise type(error)(f"Table {spec.table.stream}: {error.message}. {spec.unit.nothing_visible}.") from None

    def _take(self, batch: pa.RecordBatch) -> None:
        segment_ids = self._router.segment_ids

        def room(place: int, size: int, events: int) -> memoryview:
            return self._spool.room(segment_ids[place], size, events)

        payloads = self._encoder.encode(batch)
        frame_by_place(payloads, self._router.places(batch), len(segment_ids), room)
        self._spool.take_filled()
        self._rows += batch.num_rows
        self._reached.take(batch)

    def append(self, store: SegmentStore) -> InsertMessage:
        """Append all rows, and return the report of what was written."""
        written = _append(store, self._spec, self._partition, self._spool)
        size, retries = sum(one.bytes for one in written.values()), sum(one.retries for one in written.values())
        reached = self._reached.millis
        return InsertMessage(self._partition, self._rows, written, reached=reached, bytes=size, retries=retries)


def _router(spec: InsertSpec, partition: int) -> _KeyRouter | _SpreadRouter:
    positions = make_key_hasher(spec.table, spec.schema)
    return _SpreadRouter(spec, partition) if positions is None else _KeyRouter(positions, spec)


class _KeyRouter:
    """Routes each row by the hash of its key, and keeps the order within a key."""

    def __init__(self, positions: Callable[[pa.RecordBatch], KeyPositions], spec: InsertSpec) -> None:
        self._positions = positions
        self._router = SegmentRouter(spec.segments)
        self.segment_ids = self._router.segment_ids

    def places(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Return the place in `segment_ids` for each row."""
        return self._router.places(self._positions(batch))


class _SpreadRouter:
    """Routes rows without keys: each segment gets an even run of each batch; tasks begin with different segments."""

    def __init__(self, spec: InsertSpec, partition: int) -> None:
        self.segment_ids = [segment.segment_id for segment in spec.segments]
        self._next = partition

    def places(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Return the place in `segment_ids` for each row."""
        count = batch.num_rows
        parts = min(len(self.segment_ids), count)
        bounds = np.arange(parts + 1) * count // max(parts, 1)
        runs = np.mod(np.arange(self._next, self._next + parts), len(self.segment_ids))
        self._next += parts
        return np.repeat(runs, np.diff(bounds))


def _append(store: SegmentStore, spec: InsertSpec, partition: int, spool: Spool) -> dict[int, SegmentWrite]:
    """Append the spooled events; return what each segment has got.

    Several segments get their blocks in turn: the server stores those of one while it receives those of the others.
    """
    written: dict[int, SegmentWrite] = {}
    every = spool.segments()
    for first in range(0, len(every), _AT_ONCE):
        segments = every[first : first + _AT_ONCE]
        with ExitStack() as opened:
            under_way: dict[int, SegmentAppender] = {}
            left = {}
            for segment_id in segments:
                writer = _writer_id(spec.transaction, partition, segment_id, spool.digest(segment_id))
                appender = SegmentAppender(
                    store,
                    spec.table.stream,
                    segment_id,
                    writer,
                    spec.transaction,
                    window_bytes=max(DEFAULT_WINDOW // len(segments), 2 * BLOCK_BYTES),
                )
                under_way[segment_id] = opened.enter_context(appender)
                left[segment_id] = spool.blocks(segment_id)
            while left:
                for segment_id, blocks in list(left.items()):
                    block = next(blocks, None)
                    if block is None:
                        del left[segment_id]
                    else:
                        under_way[segment_id].append(*block)
            for segment_id, appender in under_way.items():
                appender.flush()
                size, events = spool.size(segment_id)
                resumed = appender.skipped_events > 0
                written[segment_id] = SegmentWrite(size, events, tuple(appender.ranges), resumed, appender.retries)
    return written


def _writer_id(transaction: uuid.UUID, partition: int, segment_id: int, content: bytes) -> uuid.UUID:
    """Return a writer id that depends on the content: a retry with the same rows resumes, one with others does not."""
    name = transaction.bytes + partition.to_bytes(4, "big") + segment_id.to_bytes(8, "big") + content
    return uuid.UUID(bytes=hashlib.blake2b(name, digest_size=16).digest())


def encoding_id(pravega: Pravega, table: StreamTable) -> int | None:
    """Return the id in the header of events, None for events without one.

    Raises InvalidSchemaError if the table was recreated with other columns.
    """
    if not table.framed or table.schema_version is None:
        return None
    registry = pravega.registry(table.stream.scope)
    version = VersionInfo.from_json(table.schema_version)
    codec = REGISTRY_CODECS[table.codec]
    id = _confirm_encoding_id(registry, table, version, codec)
    if id is None:
        asked = run_in_background(lambda: registry.encoding_id(table.stream.name, version, codec))
        schema = registry.schema_by_id(table.stream.name, version.id)
        # A group that was deleted and recreated starts its version numbers over.
        if schema.text != table.schema_text:
            raise InvalidSchemaError(
                f"The table of stream {table.stream} was dropped and recreated with other columns after this "
                "statement or streaming query was planned. Nothing was written; start it again."
            )
        id = asked()
        registry.remember_encoding(table.stream.name, id, Encoding(schema, version, codec))
    pravega.known_streams.note_encoding(table.stream, id)
    return id


def _confirm_encoding_id(registry: SchemaRegistry, table: StreamTable, version: VersionInfo, codec: str) -> int | None:
    """Return an id known from earlier writes if the registry still has it for the table's schema and codec.

    That takes one request instead of two.
    """
    id = registry.known_encoding_id(table.stream.name, version, codec)
    if id is None:
        return None
    try:
        found = registry.encoding(table.stream.name, id, refresh=True)
    except SchemaNotFoundError:
        return None
    is_same = (found.version, found.codec, found.schema.text) == (version, codec, table.schema_text)
    return id if is_same else None
