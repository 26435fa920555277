"""Scans through the planning API, as both front doors make them, and read as Spark's tasks do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields

import numpy as np
import pyarrow as pa
from pyspark.serializers import CPickleSerializer
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.insert.insert import Insert
from pyspark_pravega.datasource.insert.reports import InsertMessage
from pyspark_pravega.datasource.insert.task import InsertWriter
from pyspark_pravega.datasource.kinds.opening import open_table
from pyspark_pravega.datasource.scan.conditions import Condition
from pyspark_pravega.datasource.scan.counts import Counts
from pyspark_pravega.datasource.scan.event_planning import make_full_schema
from pyspark_pravega.datasource.scan.planned_scan import PlannedScan
from pyspark_pravega.datasource.scan.scan_request import ScanRequest
from pyspark_pravega.datasource.tables.hidden_columns import HIDDEN_COLUMNS
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.formats.core.spark_types import make_nullable
from pyspark_pravega.sql.options import resolve
from tests.datasource.transactions import SETTINGS

KEYED = StructType([StructField("k", IntegerType(), False), StructField("v", LongType())])


def keyed_table(stream: Stream) -> StreamTable:
    """A table of JSON events without a registry, routed by the column k."""
    return StreamTable(stream, "json", "none", KEYED, routing_key="k")


def begin(pravega: Pravega, table: StreamTable, batch: pa.RecordBatch) -> Callable[[], None]:
    """INSERT one batch as one task would, all but the commit, which the result does."""
    insert = Insert.begin(pravega, table, SETTINGS)
    report = InsertWriter(insert.spec(table.schema)).write(iter([batch]))
    assert isinstance(report, InsertMessage)

    def commit() -> None:
        assert insert.commit([report]) == batch.num_rows

    return commit


def insert(pravega: Pravega, table: StreamTable, batch: pa.RecordBatch) -> None:
    """INSERT one batch as one task would."""
    begin(pravega, table, batch)()


def begin_numbers(pravega: Pravega, table: StreamTable, first: int, last: int, keys: int = 20) -> Callable[[], None]:
    """INSERT the numbers from `first` to `last` - 1 in this order, each with the key number % keys; see `begin`."""
    values = range(first, last)
    columns = [pa.array([value % keys for value in values], pa.int32()), pa.array(values, pa.int64())]
    return begin(pravega, table, pa.record_batch(columns, names=["k", "v"]))


def insert_numbers(pravega: Pravega, table: StreamTable, first: int, last: int, keys: int = 20) -> None:
    """INSERT the numbers from `first` to `last` - 1."""
    begin_numbers(pravega, table, first, last, keys)()


def add_counts(column: Sequence[object]) -> Counts:
    """Add up what tasks have told in the column of counts, as Spark's side of the pipe does."""
    bits = np.array([value for value in column if value is not None], bool)
    numbers = [0] * len(fields(Counts))
    for entry in np.packbits(bits.reshape(-1, 48), axis=1, bitorder="little").tolist():
        numbers[entry[0] & 7] += int.from_bytes(entry, "little") >> 3
    return Counts(*numbers)


def scan(
    pravega: Pravega,
    table: StreamTable,
    columns: Sequence[str] | None = None,
    *,
    limit: int | None = None,
    counted: bool = False,
    hints: Sequence[Condition] = (),
    **options: str,
) -> PlannedScan:
    """Plan a scan of some columns (None: all, with the positions); options with _ for -."""
    known = {name: field for name, (field, _) in HIDDEN_COLUMNS.items()}
    permissive = options.get("mode") == "permissive"  # then Spark takes no column for NOT NULL
    known |= {field.name: field for field in (make_nullable(table.schema) if permissive else table.schema)}
    required = make_full_schema(table) if columns is None else StructType([known[name] for name in columns])
    read = {name.replace("_", "-"): value for name, value in options.items()}
    every = StructType(list(known.values()))
    request = ScanRequest(required, every=every, hints=hints, limit=limit, counted=counted)
    return open_table(pravega, table, resolve(read=read, env={})).plan_scan(request)


def batches(planned: PlannedScan) -> list[list[pa.RecordBatch]]:
    """Read all partitions, each with what Spark would send to a task."""
    pickles = CPickleSerializer()
    tasks = [pickles.dumps((planned.reader, partition)) for partition in planned.reader.partitions()]
    found = []
    for task in tasks:
        reader, partition = pickles.loads(task)
        found.append(list(reader.read(partition)))
    return found


def rows(planned: PlannedScan) -> list[dict[str, object]]:
    """All rows, partition by partition."""
    return [row for partition in batches(planned) for batch in partition for row in batch.to_pylist()]


def values(planned: PlannedScan) -> list[object]:
    """The column v of all rows, sorted."""
    return sorted(row["v"] for row in rows(planned))  # type: ignore[type-var]
