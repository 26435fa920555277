"""Scans a key-value table: one task for each partition that can have keys which the query wants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from math import inf
from time import monotonic
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pyspark_pravega import errors
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.key_value.key_value_table import MAX_READ_KEYS, KeyValueTable
from pyspark_pravega.client.key_value.partitions import PartitionSize
from pyspark_pravega.client.retry import count_repeats, limit_retries
from pyspark_pravega.formats.core.arrow_types import arrow_schema, replace_char_types
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import BadEvent, Decoder
from pyspark_pravega.sql import options as o

from ..scan.counts import Counts, add_counts, make_null_counts
from ..scan.planned_scan import PlannedReader, PlannedScan, RowSource
from ..scan.scan_request import WantedRows
from ..tables.open_table import OpenTable
from ..tables.stream_table import KeyColumns, StreamTable
from ..workers.connections import borrow_connection
from .keys import decode_keys
from .ranges import Ranges, choose_fewest_requests, find_key_ranges

_Page: TypeAlias = tuple[list[bytes], list[bytes]]
"""Keys, and their values or none."""


@dataclass(frozen=True)
class EntryScanPlan:
    """The plan of all tasks. `schema` has the columns of the rows, in order.

    With `counted`, tasks count what they read. `lookup_time`: how long a task may look keys up, None: no limit.
    """

    table: StreamTable
    config: ClientConfig
    schema: StructType
    limit: int | None
    counted: bool
    lookup_time: timedelta | None = None

    @property
    def output(self) -> StructType:
        """Return the columns of the tasks' batches."""
        return add_counts(self.schema) if self.counted else self.schema


@dataclass
class KeyPartition(InputPartition):
    """The part of a partition that a task reads: entries by their keys, and ranges with both ends (empty: all)."""

    partition: int
    keys: tuple[bytes, ...] = field(repr=False)
    ranges: tuple[tuple[bytes, bytes], ...] = field(repr=False)


def open_entries(pravega: Pravega, table: StreamTable) -> KeyValueTable:
    """Return the key-value table that holds a table's rows."""
    stream, keys = table.stream, require_keys(table)
    return pravega.key_value_table(stream.scope, stream.name, primary_key_length=keys.primary_length)


def open_same_entries(pravega: Pravega, table: StreamTable) -> KeyValueTable:
    """Return the key-value table that holds a table's rows.

    Raises KeyValueTableNotFoundError if another one was made under its name since the table was loaded.
    """
    entries = open_entries(pravega, table)
    if table.first_segment not in (None, entries.segments()[0]):
        raise errors.KeyValueTableNotFoundError(
            f"The key-value table {table.stream} has been dropped and recreated. Run the statement again, or "
            "start the query again."
        )
    return entries


def require_keys(table: StreamTable) -> KeyColumns:
    """Return the key columns of a key-value table."""
    assert table.keys is not None
    return table.keys


def select_value_columns(table: StreamTable, columns: StructType) -> StructType:
    """Return the columns that are in the values of entries."""
    keys = set(require_keys(table).names)
    return StructType([column for column in columns if column.name not in keys])


def plan_entries(opened: OpenTable, rows: WantedRows) -> PlannedScan:
    """Plan a scan of the entries that can fulfil the conditions, which others evaluate on the rows.

    Without required columns, there is one with arbitrary values. Raises InvalidSchemaError for columns that the table
    does not have, KeyValueTableNotFoundError, PermissionDeniedError.
    """
    table, required = opened.table, rows.columns
    names = table.schema.fieldNames()
    unknown = [name for name in required.fieldNames() if name not in names]
    if unknown:
        raise errors.InvalidSchemaError(
            f"Key-value table {table.stream} has no column {', '.join(unknown)}. Its columns are {', '.join(names)}."
        )
    keys = require_keys(table)
    schema = replace_char_types(required if required.fields else StructType([table.schema[keys.names[0]]]))
    entries = open_same_entries(opened.pravega, table)
    sizes = entries.sizes()
    ranges = find_key_ranges(keys, rows.conditions)
    if ranges is not None and sum(low == high for low, high in ranges) > opened.options.get(o.LOOKUP_KEYS_MAX):
        ranges = None
    partitions = _make_partitions(entries, keys, sizes, ranges)
    lookup_time = opened.options.get(o.LOOKUP_KEYS_TIMEOUT)
    plan = EntryScanPlan(table, opened.pravega.config, schema, rows.limit, rows.counted, lookup_time)
    reader = EntryScanReader(plan, partitions)
    return PlannedScan(
        RowSource(reader, schema, plan.output),
        sum(sizes[partition.partition].bytes for partition in partitions),
        len(partitions),
        {},
    )


def _make_partitions(
    entries: KeyValueTable, columns: KeyColumns, sizes: Sequence[PartitionSize], key_ranges: Ranges | None
) -> list[KeyPartition]:
    count = len(sizes)
    if key_ranges is None:
        return [KeyPartition(number, (), ((b"", b""),)) for number in range(count)]
    length, secondary = columns.length, 8 * columns.secondary_length
    points: list[list[bytes]] = [[] for _ in range(count)]
    ranges: list[list[tuple[bytes, bytes]]] = [[] for _ in range(count)]
    for low, high in key_ranges:
        first, last = low.to_bytes(length, "big"), high.to_bytes(length, "big")
        one = low >> secondary == high >> secondary
        for partition in [entries.find_partition(first)] if one else range(count):
            if low == high:
                points[partition].append(first)
            else:
                ranges[partition].append((first, last))
    return [
        KeyPartition(number, *choose_fewest_requests(points[number], ranges[number], sizes[number].pages))
        for number in range(count)
        if points[number] or ranges[number]
    ]


class EntryScanReader(PlannedReader[EntryScanPlan, KeyPartition]):
    """One partition for each of the table's; the entries of a range are in the order of their keys."""

    def batches(self, partition: KeyPartition) -> Iterator[pa.RecordBatch]:
        plan, left = self.plan, self.plan.limit
        rows = _Rows(plan)
        with borrow_connection(plan.config) as pravega:
            for (keys, values), counts in _count_pages(self._read_pages(pravega, partition, rows.values_wanted)):
                if plan.counted:  # before the rows, as Spark may want only a few of them
                    yield counts.batch(rows.output)
                batch = rows.batch(keys, values)
                if left is not None:
                    batch = batch.slice(0, left)
                    left -= batch.num_rows
                if batch.num_rows:
                    yield batch
                if left == 0:
                    return

    def _read_pages(self, pravega: Pravega, partition: KeyPartition, values: bool) -> Iterator[_Page]:
        entries = open_entries(pravega, self.plan.table)
        time = self.plan.lookup_time
        end = inf if time is None else monotonic() + time.total_seconds()
        for at in range(0, len(partition.keys), MAX_READ_KEYS):
            page_keys = partition.keys[at : at + MAX_READ_KEYS]
            with _limit_lookups(self.plan, len(partition.keys), end):
                looked_up = entries.get_many(page_keys)
            entries_of_page = [(key, entry.value) for key, entry in zip(page_keys, looked_up, strict=True) if entry]
            yield [key for key, _ in entries_of_page], [value for _, value in entries_of_page]
        for first, last in partition.ranges:
            if values:
                for page in entries.pages(partition.partition, first, last):
                    yield [entry.key for entry in page], [entry.value for entry in page]
            else:
                for keys in entries.list_key_pages(partition.partition, first, last):
                    yield [key.key for key in keys], []


def _count_pages(pages: Iterator[_Page]) -> Iterator[tuple[_Page, Counts]]:
    """Yield each page with what it took to read it. The first one counts the partition as a slice."""
    slices = 1
    while True:
        began = monotonic()
        with count_repeats() as repeats:
            page = next(pages, None)
        if page is None:
            return
        size = sum(map(len, page[0])) + sum(map(len, page[1]))
        waited = round(1000 * (monotonic() - began))
        yield page, Counts(slices=slices, bytes=size, waited=waited, retries=repeats[0])
        slices = 0


@contextmanager
def _limit_lookups(plan: EntryScanPlan, keys: int, end: float) -> Iterator[None]:
    """Limit the requests of the body to the time until `end`. Raises ServerTimeoutError if there is too little."""
    try:
        if (left := end - monotonic()) <= 0:
            raise errors.ServerTimeoutError("no time was left for the others")
        with limit_retries(left):
            yield
    except (errors.ServerUnavailableError, errors.ServerTimeoutError) as error:
        if plan.lookup_time is None:
            raise
        raise errors.ServerTimeoutError(
            f"Key-value table {plan.table.stream}: the {keys} keys of a task were not all looked up in "
            f"'{o.LOOKUP_KEYS_TIMEOUT.key}'='{plan.lookup_time.total_seconds():g}s': {error.message}. Set it higher, "
            "make the micro-batches smaller, or look whether the servers are overloaded"
        ) from None


class _Rows:
    """Turns entries into rows."""

    def __init__(self, plan: EntryScanPlan) -> None:
        self._table = plan.table
        self._keys = require_keys(plan.table)
        self._schema = arrow_schema(plan.schema)
        self._counted = plan.counted
        self.output = arrow_schema(plan.output)
        self._values = select_value_columns(plan.table, plan.schema)
        self.values_wanted = bool(self._values.fields)

    @cached_property
    def _decoder(self) -> Decoder:
        return self._table.make_decoder(self._values)

    def batch(self, keys: list[bytes], values: list[bytes]) -> pa.RecordBatch:
        """Return a row for each entry. Raises MalformedEventError naming the key whose value cannot be read."""
        columns = decode_keys(self._keys, keys, self._schema.names)
        if self.values_wanted:
            columns |= self._decode_values(keys, values)
        arrays = [columns[name] for name in self._schema.names]
        if self._counted:
            arrays.append(make_null_counts(len(keys)))
        return pa.RecordBatch.from_arrays(arrays, schema=self.output)

    def _decode_values(self, keys: list[bytes], values: list[bytes]) -> dict[str, pa.Array]:
        try:
            batch = self._decoder.decode(EventBuffer.of(values))
        except BadEvent as bad:
            raise errors.MalformedEventError(
                f"The value of the key {keys[bad.index].hex()} of key-value table {self._table.stream} cannot be "
                f"decoded: {bad.reason}. Another program wrote it, or the table was declared with another "
                "'value-format'."
            ) from None
        return dict(zip(batch.schema.names, batch.columns, strict=True))
