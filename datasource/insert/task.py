"""The task's side of an INSERT: encode and route rows, and append them to the shared transaction."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_pravega import errors
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.cancellation import run_in_background
from pyspark_pravega.client.config import ClientConfig, Endpoint
from pyspark_pravega.client.registry.registry_types import Encoding, VersionInfo
from pyspark_pravega.client.registry.schema_registry import SchemaRegistry
from pyspark_pravega.client.routing import SegmentRouter
from pyspark_pravega.client.segments.event_frames import frame_by_place
from pyspark_pravega.client.segments.failures import SegmentAddress
from pyspark_pravega.client.stream import SegmentRange
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.formats.core.text_lengths import make_length_check

from ..tables.row_keys import make_key_hasher
from ..tables.stream_table import REGISTRY_CODECS, StreamTable
from ..workers.connections import borrow_connection
from ..workers.user_errors import shorten_errors
from .commit import WriteSettings
from .few_rows import hold_rows, read_few
from .noted_times import ReachedTime
from .outcomes import AWAY, clean_up
from .reports import InsertMessage, SegmentWrite
from .task_output import TaskOutput


@dataclass(frozen=True)
class InsertSpec:
    """The plan that all tasks of one INSERT share. Without a `transaction`, the only task begins one if it has to."""

    table: StreamTable
    config: ClientConfig
    schema: StructType
    transaction: uuid.UUID | None
    segments: tuple[SegmentRange, ...]
    endpoints: dict[int, Endpoint]
    token: str = field(repr=False)
    settings: WriteSettings
    encoding_id: int | None

    def rejoin(self, pravega: Pravega) -> Transaction:
        """Return the transaction."""
        assert self.transaction is not None
        return Transaction(
            pravega.controller,
            self.table.stream,
            self.transaction,
            list(self.segments),
            self.settings.lease_ms,
            self.token,
        )


class TaskRows:
    """The rows of a task for one stream: encoded, and routed to the segments of its transaction."""

    def __init__(self, spec: InsertSpec, partition: int, output: TaskOutput) -> None:
        table = spec.table
        self._spec, self._partition, self._output = spec, partition, output
        self._encoder = table.make_encoder(spec.schema, spec.encoding_id)
        self._fit = make_length_check(table.schema)
        self._router = _Router(spec, partition)
        self._segments = [SegmentAddress(table.stream, one, spec.transaction) for one in self._router.segment_ids]
        self._reached = ReachedTime(table)
        self._rows = 0

    def take(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Take rows. Raises the errors of `SegmentAppender`.

        Raises InvalidRowError and EventTooLargeError, whether they are found here or by the source of the rows.
        """
        with _name_table(self._spec):
            for batch in batches:
                self._take(batch)

    def _take(self, batch: pa.RecordBatch) -> None:
        batch = self._fit(batch)
        places = self._router.places(batch)
        frame_by_place(self._encoder.encode(batch), places, len(self._segments), self._find_room)
        self._output.take_filled()
        self._note(batch)

    def _note(self, rows: pa.RecordBatch) -> None:
        self._rows += rows.num_rows
        self._reached.take(rows)

    def _find_room(self, number: int, size: int, events: int) -> memoryview:
        return self._output.room(self._segments[number], size, events)

    def report(self, finished: Mapping[SegmentAddress, SegmentWrite]) -> InsertMessage:
        """Return the report; `finished` is what the output has stored, perhaps for other streams too."""
        stream, transaction = self._spec.table.stream, self._spec.transaction
        written = {
            segment.segment_id: one
            for segment, one in finished.items()
            if (segment.stream, segment.transaction) == (stream, transaction)
        }
        size, retries = sum(one.bytes for one in written.values()), sum(one.retries for one in written.values())
        reached = self._reached.millis
        return InsertMessage(self._partition, self._rows, written, 0, reached, size, retries, transaction=transaction)


class InsertWriter(DataSourceArrowWriter):
    """Spark's writer for tasks. Whoever began the transaction commits or aborts it."""

    rows_of_task: ClassVar[type[TaskRows]] = TaskRows

    def __init__(self, spec: InsertSpec) -> None:
        self._spec = spec

    @shorten_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write one partition.

        Raises InvalidRowError, EventTooLargeError, TransactionNotOpenError, WriterFencedError, and for servers that do
        not answer ServerUnavailableError, ServerTimeoutError or ServerFailedError.
        """
        spec = self._spec
        context = TaskContext.get()
        partition = context.partitionId() if context is not None else 0
        try:
            with borrow_connection(spec.config) as pravega:
                pravega.segments.seed(spec.table.stream, spec.token, spec.endpoints)
                if spec.transaction is not None:
                    return self._write(pravega, spec, spec.rejoin(pravega), partition, iterator)
                with _name_table(spec):
                    first, are_all = read_few(iterator)
                columns = spec.schema, spec.encoding_id
                held = hold_rows(spec.table, columns, spec.segments, first) if are_all else None
                return held or self._begin_and_write(pravega, partition, chain(first, iterator))
        except AWAY as error:
            # A commit begins only when all tasks have succeeded.
            raise type(error)(f"{error.message}. {spec.settings.unit.write_again}") from None

    def _begin_and_write(
        self, pravega: Pravega, partition: int, batches: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        spec = self._spec
        transaction = Transaction.begin(pravega.controller, spec.table.stream, spec.settings.lease_ms)
        segments, token = tuple(transaction.segments), transaction.token
        spec = replace(spec, transaction=transaction.id, segments=segments, token=token)
        try:
            report = self._write(pravega, spec, transaction, partition, batches)
            transaction.ping()  # nobody keeps it alive until the driver commits
            return report
        except BaseException:
            clean_up(transaction.abort)
            raise

    def _write(
        self,
        pravega: Pravega,
        spec: InsertSpec,
        transaction: Transaction,
        partition: int,
        batches: Iterator[pa.RecordBatch],
    ) -> WriterCommitMessage:
        # The driver keeps it alive too; this covers a driver without the service, and a restart of the service.
        transaction.keep_alive()
        try:
            with closing(TaskOutput(pravega.segments, spec.settings.spool_memory, partition)) as output:
                rows = self.rows_of_task(spec, partition, output)
                rows.take(batches)
                return rows.report(output.finish())
        except errors.TransactionNotOpenError:
            raise transaction.explain_end() from None
        finally:
            transaction.stop()


@contextmanager
def _name_table(spec: InsertSpec) -> Iterator[None]:
    """Name the table in errors about rows, and say that none of them is visible."""
    try:
        yield
    except (errors.InvalidRowError, errors.EventTooLargeError) as error:
        nothing_visible = spec.settings.unit.nothing_visible
        raise type(error)(f"Table {spec.table.stream}: {error.message}. {nothing_visible}.") from None


class _Router:
    """Routes rows by hashes of their keys. Rows without keys are spread: each segment gets an even run of a batch."""

    def __init__(self, spec: InsertSpec, partition: int) -> None:
        self._hash_keys = make_key_hasher(spec.table, spec.schema)
        self._router = SegmentRouter(spec.segments)
        self.segment_ids = self._router.segment_ids
        self._next = partition  # so that tasks begin with different segments

    def places(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Return the place in `segment_ids` for each row."""
        if self._hash_keys is not None:
            return self._router.places(self._hash_keys(batch))
        count = batch.num_rows
        parts = min(len(self.segment_ids), count)
        bounds = np.arange(parts + 1) * count // max(parts, 1)
        runs = np.mod(np.arange(self._next, self._next + parts), len(self.segment_ids))
        self._next += parts
        return np.repeat(runs, np.diff(bounds))


def find_encoding_id(pravega: Pravega, table: StreamTable) -> int | None:
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
        wait_for_id = run_in_background(lambda: registry.encoding_id(table.stream.name, version, codec))
        schema = registry.find_schema_by_id(table.stream.name, version.id)
        # A group that was deleted and recreated starts its version numbers over.
        if schema.text != table.schema_text:
            raise errors.InvalidSchemaError(
                f"The table of stream {table.stream} was dropped and recreated with other columns after this "
                "statement or streaming query was planned. Nothing was written; start it again."
            )
        id = wait_for_id()
        registry.remember_encoding(table.stream.name, id, Encoding(schema, version, codec))
    pravega.known_streams.note_encoding(table.stream, id)
    return id


def _confirm_encoding_id(registry: SchemaRegistry, table: StreamTable, version: VersionInfo, codec: str) -> int | None:
    """Return an id known from earlier writes if the registry still has it for the table's schema and codec.

    That takes one request instead of two.
    """
    id = registry.find_known_encoding_id(table.stream.name, version, codec)
    if id is None:
        return None
    try:
        encoding = registry.encoding(table.stream.name, id)
    except errors.SchemaNotFoundError:
        return None
    is_same = (encoding.version, encoding.codec, encoding.schema.text) == (version, codec, table.schema_text)
    return id if is_same else None
