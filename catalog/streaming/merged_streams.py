"""Answers the requests of streaming queries whose table is several streams."""

from __future__ import annotations

from typing import assert_never

from pyspark_pravega.datasource.scan.scan_request import ScanRequest
from pyspark_pravega.datasource.stream_source.admission import Limits, read_limits
from pyspark_pravega.datasource.stream_source.event_time_drift import check_times
from pyspark_pravega.datasource.stream_source.memory import SourceMemory
from pyspark_pravega.datasource.tables.read_options import resolve_read
from pyspark_pravega.errors import UnsupportedOperationError

from .. import protocol as r
from ..protocol.replies import MicroBatchEnd, PlannedRead
from ..queries.merged_reading import FollowedStreams, MergedReading, check_followed
from ..queries.planning import make_planned_read
from ..storage.catalogs import Catalog
from ..storage.reporting import READ_AGAIN, explain_dropped_streams, prefix_errors
from ..storage.spelling import name_table, name_table_and_stream


def answer(
    catalog: Catalog, memory: SourceMemory, request: r.StreamRequest
) -> str | Limits | MicroBatchEnd | PlannedRead | None:
    """Carry out a request of a streaming query whose table has several streams.

    Raises UnsupportedOperationError for real-time mode, InvalidOptionError for options that need one stream.
    """
    if isinstance(request, r.CommitMicroBatch):
        return None
    table = request.table
    name = name_table(catalog, table)
    with prefix_errors("Table", name_table_and_stream(catalog, table)), explain_dropped_streams(READ_AGAIN):
        options = resolve_read(catalog.options, table, request.options)
        check_followed(table, request.columns, options)
        if isinstance(request, r.LimitsOfStream):
            check_times(catalog.pravega, table.members, options)
            return read_limits(options)
        if isinstance(request, r.PlanRealTime | r.EndOfRealTime):
            raise UnsupportedOperationError(
                f"{name} is several streams, which real-time mode cannot follow. Read one stream, or use another "
                "trigger."
            )
        reading = MergedReading(catalog, memory, FollowedStreams(table, request.columns, options))
        match request:
            case r.StartOfStream():
                return reading.start()
            case r.LastOfStream():
                return reading.last()
            case r.EndOfMicroBatch(since=since, last=last, limits=limits, checkpoint=checkpoint):
                return reading.end(since, last, limits, checkpoint)
            case r.PlanMicroBatch(since=since, until=until, checkpoint=checkpoint):
                planned = reading.plan(since, until, checkpoint)
                return make_planned_read(name, table, planned, ScanRequest(request.columns))
        assert_never(request)
