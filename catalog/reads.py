"""Makes the replies that have a planned scan for Spark's readers."""

from __future__ import annotations

from pyspark.sql.types import StructType

from pyspark_pravega.datasource.scan.planned_scan import PlannedScan
from pyspark_pravega.datasource.spark_functions import PYTHON, pickled_read
from pyspark_pravega.datasource.tables.stream_table import StreamTable

from .replies import PlannedRead, ScanEnds


def planned_read(
    name: str,
    table: StreamTable,
    columns: StructType,
    planned: PlannedScan,
    ends: ScanEnds | None = None,
    limit: int | None = None,
) -> PlannedRead:
    """Return the reply of a planned scan of what has this name. `columns` are those that Spark asked for."""
    function, partitions = pickled_read(planned.reader, planned.output)
    shown = ", ".join(columns.fieldNames()) or "none"
    text = f"{name} ({table.format}) columns: {shown}; segments: {planned.segments}, bytes: {planned.bytes}"
    return PlannedRead(
        function=function,
        python=PYTHON,
        partitions=tuple(partitions),
        schema=planned.schema,
        output=planned.output,
        affinities=tuple(planned.affinities),
        bytes=planned.bytes,
        description=text if limit is None else f"{text}; limit: {limit}",
        ends=ends,
    )
