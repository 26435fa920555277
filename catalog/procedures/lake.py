"""The procedure that adds events of a table to its lake."""

from __future__ import annotations

import time

from pyspark.sql.types import BooleanType, LongType, StringType

from pyspark_pravega.client.consumers.consumer import Consumer
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.changes.tiering import Tiering, finish_tiering, lies_within, plan_tiering
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.lake.iceberg import LakeTable
from pyspark_pravega.datasource.lake.lake_columns import make_lake_schema
from pyspark_pravega.datasource.lake.open_lake import check_defaults, check_identity, find_lake_name, require_catalog
from pyspark_pravega.datasource.positions.lake_history import History
from pyspark_pravega.datasource.positions.points_in_time import find_end_now
from pyspark_pravega.datasource.tables.loading import load_table
from pyspark_pravega.datasource.tables.open_table import OpenTable
from pyspark_pravega.errors import InvalidOptionError, UnsupportedOperationError
from pyspark_pravega.sql import options as o

from ..metadata.metadata_table import Rows, column
from ..storage.catalogs import Catalog
from ..storage.spelling import prefix_table
from ..writing.compaction import truncate_unless_held
from .positions import find_point
from .procedure import TABLE, Call, Tasks, parameter, procedure

_RIGHTS = "READ on the stream, READ_UPDATE on its scope for a table with retention, and what the lake asks for"


def _plan(call: Call) -> Tasks | None:
    opened = _open(call)
    pravega, stream, until = opened.pravega, opened.stream, call.arguments.get("until")
    with prefix_table(call.catalog, opened.table):
        lake = _load_lake(opened)
        _hold(opened, pravega.controller.head(stream) if lake.history is None else lake.history.cut)
        point = find_end_now(pravega, stream) if until is None else find_point(pravega, stream, "until", until)
        if until is not None and point.version is None:
            raise InvalidOptionError(
                f"'until' => '{until[:80]}': no version ends there. Give a version, or leave it out."
            )
        planned = plan_tiering(opened, lake, point)
    return None if planned is None else Tasks(planned[1], planned[0].to_json())


@procedure(
    "Copies the events that the lake of a table does not have yet into it, in one commit. Retention and 'lake.keep' "
    "may then remove them from the stream; reads of the table have each of them once.",
    (TABLE, parameter("until", "a version or a tag; by default the end of the table now", optional=True)),
    (
        column("rows", LongType(), "that were added", nullable=False),
        column("version", LongType(), "the newest one that the lake has"),
        column("stream_cut", StringType(), "up to where the lake has all events"),
        column("rows_in_lake", LongType(), "that the lake has now", nullable=False),
        column("truncated", BooleanType(), "whether 'lake.keep' removed events from the stream", nullable=False),
        column("held_by", StringType(), "a consumer that still needs them, so that they were not removed"),
    ),
    _RIGHTS,
    _plan,
)
def tier(call: Call) -> Rows:
    opened, rows = _open(call), 0
    with prefix_table(call.catalog, opened.table):
        lake = _load_lake(opened)
        if call.done is not None:
            tiering = Tiering.from_json(call.done.pending)
            rows = finish_tiering(lake, tiering, call.done.rows)
            _hold(opened, tiering.until.cut)
        history = lake.history
        # Queries that were planned before this call may still read what it has added from the stream.
        truncated, held_by = _truncate(call.catalog, opened, history if call.done is None else tiering.since)
    cut = None if history is None else history.cut.to_text()
    version, total = (None, 0) if history is None else (history.version, history.rows)
    yield rows, version, cut, total, truncated, held_by


def _open(call: Call) -> OpenTable:
    return call.catalog.open_table(load_table(call.catalog.pravega, call.find_stream()).table)


def _load_lake(opened: OpenTable) -> LakeTable:
    """Return the lake of a table with all its columns; it is made if it is missing."""
    name = find_lake_name(opened)
    if name is None:
        raise UnsupportedOperationError(
            "The table has no lake. Set one first: ALTER TABLE ... SET TBLPROPERTIES ('lake'='<namespace>.<table>')."
        )
    schema, settings = make_lake_schema(opened.table.schema), require_catalog(opened, name)
    lake = LakeTable.load(settings, name)
    if lake is None:
        lake = LakeTable.create(settings, name, schema, opened.stream)
    lake.check_origin(opened.stream)
    lake.check_columns(opened.table.schema.names)
    if lake.history is not None:
        check_identity(opened, lake, lake.history)
        check_defaults(opened.table, opened.table.schema, lake)
        lake.check_complete()
    lake.evolve(schema)
    return lake


def _hold(opened: OpenTable, cut: StreamCut) -> None:
    """Let retention keep what follows a cut, if the stream has retention at all."""
    pravega, stream = opened.pravega, opened.stream
    if pravega.controller.stream_configuration(stream).retention is not None:
        Consumer.register(pravega, stream, f"lake-of-{stream.name}", cut)


def _truncate(catalog: Catalog, opened: OpenTable, history: History | None) -> tuple[bool, str | None]:
    """Remove from the stream what the lake has, and `lake.keep` does not keep; return whether, and who holds it."""
    keep = opened.options.get(o.LAKE_KEEP)
    if keep is None or history is None:
        return False, None
    log = CommitLog(opened.pravega, opened.stream)
    oldest = time.time_ns() // 1000 - round(keep.total_seconds() * 1_000_000)
    newest = log.find_newest_by(oldest)
    if newest is None:
        return False, None
    version = newest if newest.number <= history.version else log.version(history.version)
    if version is None or not lies_within(version.cut, history.cut):
        return False, None
    held_by = truncate_unless_held(catalog, version.cut)
    return held_by is None, held_by
