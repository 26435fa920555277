"""Makes the replies that have a planned scan for Spark's readers."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from pyspark_pravega.datasource.changes.truncation_search import FOUND
from pyspark_pravega.datasource.scan.aggregation import Aggregation
from pyspark_pravega.datasource.scan.conditions import Condition
from pyspark_pravega.datasource.scan.planned_scan import PlannedScan
from pyspark_pravega.datasource.spark_functions import PYTHON, pickled_read
from pyspark_pravega.datasource.tables.stream_table import StreamTable

from .replies import PlannedRead, PlannedTasks, ScanEnds


def planned_read(
    name: str,
    table: StreamTable,
    columns: StructType,
    planned: PlannedScan,
    ends: ScanEnds | None = None,
    limit: int | None = None,
    aggregation: Aggregation | None = None,
    conditions: Sequence[Condition] = (),
    columnar: bool = True,
) -> PlannedRead:
    """Return the reply of a planned scan of what has this name. `columns` are those that Spark asked for.

    `conditions` are those that the scan evaluates. `columnar`: Spark gets columns, not rows.
    """
    shown = ", ".join(columns.fieldNames()) or "none"
    text = f"{name} ({table.format}) columns: {shown}; segments: {planned.segments}, bytes: {planned.bytes}"
    if planned.keyed is not None:
        text += "; routing key: {} of {} segments".format(*planned.keyed)
    if aggregation is not None:
        text += f"; aggregates: {aggregation}"
    if conditions:
        text += f"; filters: {', '.join(map(str, conditions))}"
    return PlannedRead(
        tasks=_tasks(planned.reader, planned.schema, planned.output) if planned.whole else None,
        search=None if planned.search is None else _tasks(planned.search, FOUND, FOUND),
        schema=planned.schema,
        affinities=tuple(planned.affinities),
        bytes=planned.bytes,
        description=text if limit is None else f"{text}; limit: {limit}",
        ends=ends,
        rows=planned.rows,
        columnar=columnar,
        known=planned.known,
    )


def _tasks(reader: DataSourceReader, schema: StructType, output: StructType) -> PlannedTasks:
    function, partitions = pickled_read(reader, output)
    return PlannedTasks(function, PYTHON, tuple(partitions), schema, output)
