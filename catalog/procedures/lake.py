"""The procedures that add events of a table to its lake, compact its files, and remove those that it does not have."""

from __future__ import annotations

import time
from datetime import timedelta

import pyarrow as pa
import tenacity
from pyspark.sql.types import BooleanType, LongType, StringType

from pyspark_pravega.client.consumers.consumer import Consumer, count_bytes_after
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.changes.lake_compaction import finish_compaction, plan_compaction
from pyspark_pravega.datasource.changes.tiering import Tiering, finish_tiering, lies_within, plan_tiering
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.kinds.opening import find_table_kind
from pyspark_pravega.datasource.lake.iceberg import LakeTable
from pyspark_pravega.datasource.lake.lake_columns import make_lake_schema
from pyspark_pravega.datasource.lake.open_lake import (
    check_defaults,
    check_identity,
    find_lake_name,
    load_lake,
    note_filled,
    open_lake,
    require_catalog,
)
from pyspark_pravega.datasource.positions.lake_history import History
from pyspark_pravega.datasource.positions.points_in_time import find_end_now
from pyspark_pravega.datasource.tables.loading import load_table
from pyspark_pravega.datasource.tables.open_table import OpenTable
from pyspark_pravega.errors import (
    InvalidOptionError,
    LakeError,
    StreamNotFoundError,
    UnsupportedOperationError,
    format_count,
)
from pyspark_pravega.sql import options as o

from ..metadata.metadata_table import Rows, column
from ..running.repeated_tiering import check_logins, end_tiering, keep_tiering
from ..storage.catalogs import Catalog
from ..storage.spelling import prefix_table, resolve_stream
from ..writing.compaction import truncate_unless_held
from .positions import find_point
from .procedure import DRY_RUN, TABLE, Call, Tasks, parameter, procedure

_RIGHTS = (
    "READ on the stream, READ_UPDATE on its scope for a table with retention or 'tier.interval', and what the lake "
    "asks for; READ_UPDATE on the stream and on `pyspark-pravega-commits`, so that reads notice if the lake is lost"
)


_IN_FLIGHT = timedelta(hours=1)
"""For how long queries may still read from the stream what a lake has got, unless `lake.keep` is shorter."""
_UNUSED = timedelta(days=1)
"""How old a file must be that no snapshot has: the tiering that wrote it may be running still."""


def _plan(call: Call) -> Tasks | None:
    opened = _open_or_end(call)
    pravega, stream, until = opened.pravega, opened.stream, call.arguments.get("until")
    with prefix_table(call.catalog, opened.table):
        if opened.options.get(o.TIER_INTERVAL) is None:
            end_tiering(call.catalog, stream)
        else:
            check_logins(call.catalog)
        point = find_end_now(pravega, stream) if until is None else find_point(pravega, stream, "until", until)
        if until is not None and point.version is None:
            raise InvalidOptionError(
                f"'until' => '{until[:80]}': no version ends there. Give a version, or leave it out."
            )
        opened = _open(call)  # with the columns of all events before the end: others may have added some
        lake = _load_lake(opened)
        _hold(opened, pravega.controller.head(stream) if lake.history is None else lake.history.cut)
        least = opened.options.get(o.TIER_MIN_BYTES) if until is None else None
        planned = plan_tiering(opened, lake, point, least or 0)
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
        column("waiting", StringType(), "the bytes that were not added, because 'tier.min-bytes' asks for more"),
    ),
    _RIGHTS,
    _plan,
)
def tier(call: Call) -> Rows:
    began, opened, rows = time.time(), _open_or_end(call), 0
    with prefix_table(call.catalog, opened.table):
        lake = _load_lake(opened)
        if call.done is not None:
            tiering = Tiering.from_json(call.done.pending)
            rows = finish_tiering(lake, tiering, call.done.rows)
            note_filled(opened, lake.name)
            _hold(opened, tiering.until.cut)
        history = lake.history
        truncated, held_by = _truncate(call.catalog, opened, lake, began)
        if (interval := opened.options.get(o.TIER_INTERVAL)) is not None:
            keep_tiering(call.catalog, opened.stream, interval)
    cut = None if history is None else history.cut.to_text()
    version, total = (None, 0) if history is None else (history.version, history.rows)
    yield rows, version, cut, total, truncated, held_by, _describe_waiting(call, opened, history)


def _describe_waiting(call: Call, opened: OpenTable, history: History | None) -> str | None:
    """Return how many bytes 'tier.min-bytes' has left in the stream, and that limit; None if it has left none."""
    least = opened.options.text(o.TIER_MIN_BYTES)
    if least is None or call.done is not None or "until" in call.arguments:
        return None
    since = opened.pravega.controller.head(opened.stream) if history is None else history.cut
    size = count_bytes_after(opened.pravega, since)
    return f"{format_count(size, 'byte')}; '{o.TIER_MIN_BYTES.key}' is {least}" if size else None


def _plan_compaction(call: Call) -> Tasks | None:
    opened = _open(call)
    with prefix_table(call.catalog, opened.table):
        planned = plan_compaction(_require_lake(opened))
    return None if planned is None else Tasks(*planned)


@procedure(
    "Writes small files of a table's lake, as frequent calls of tier leave them, once more as larger ones.",
    (TABLE,),
    (
        column("files_before", LongType(), "of data in the lake", nullable=False),
        column("files_after", LongType(), "in their place", nullable=False),
        column("bytes_before", LongType(), "of these files", nullable=False),
        column("bytes_after", LongType(), "of the files now", nullable=False),
    ),
    "READ on the stream, and what the lake asks for",
    _plan_compaction,
)
def compact_lake(call: Call) -> Rows:
    opened = _open(call)
    with prefix_table(call.catalog, opened.table):
        lake = _require_lake(opened)
        before = lake.snapshot
        if call.done is not None:
            finish_compaction(lake, call.done.pending, call.done.rows)
    yield before.files, lake.snapshot.files, before.bytes, lake.snapshot.bytes


@procedure(
    "Removes files of a table's lake that are older than a day and belong to no snapshot, because tier or compact_lake "
    "was killed.",
    (TABLE, DRY_RUN),
    (
        column("files", LongType(), "that no snapshot has", nullable=False),
        column("bytes", LongType(), "of these files", nullable=False),
        column("removed", BooleanType(), "whether they were removed", nullable=False),
    ),
    "READ on the stream, and what the lake asks for",
)
def remove_orphans(call: Call) -> Rows:
    opened = _open(call)
    with prefix_table(call.catalog, opened.table):
        lake = _require_lake(opened)
        orphans = lake.find_orphans(time.time() - _UNUSED.total_seconds())
        if removed := bool(orphans) and not call.is_set(DRY_RUN):
            lake.remove_files(orphans)
    yield len(orphans), sum(orphans.values()), removed


def _open(call: Call) -> OpenTable:
    """Return the table whose rows are the events: of a table of changes, its changelog."""
    table = load_table(call.catalog.pravega, call.find_stream()).table
    return call.catalog.open_table(find_table_kind(table).events_of(table))


def _open_or_end(call: Call) -> OpenTable:
    """Return the table. If its name has become that of nothing, or of another kind, servers tier it no more."""
    try:
        return _open(call)
    except (StreamNotFoundError, UnsupportedOperationError):
        table = call.name_table(TABLE.name)
        end_tiering(call.catalog, resolve_stream(call.catalog, table.namespace, table.name))
        raise


def _require_lake(opened: OpenTable) -> LakeTable:
    """Return the lake of a table. Raises UnsupportedOperationError if it has nothing yet."""
    lake = open_lake(opened)
    if lake is None:
        raise UnsupportedOperationError(
            "The table has no lake, or nothing is in it yet. The table property 'lake' names one, and tier fills it."
        )
    return lake


def _load_lake(opened: OpenTable) -> LakeTable:
    """Return the lake of a table with all its columns; it is made if it is missing."""
    name = find_lake_name(opened)
    if name is None:
        raise UnsupportedOperationError(
            "The table has no lake. Set one first: ALTER TABLE ... SET TBLPROPERTIES ('lake'='<namespace>.<table>')."
        )
    schema, settings = make_lake_schema(opened.table.schema), require_catalog(opened, name)
    lake = load_lake(opened, settings, name)
    unit = opened.options.get(o.LAKE_PARTITION)
    if lake is None:
        lake = _make_lake(settings, name, schema, opened.stream, unit)
    lake.check_origin(opened.stream, unit)
    lake.check_columns(opened.table.schema.names)
    if lake.history is not None:
        check_identity(opened, lake, lake.history)
        check_defaults(opened.table, opened.table.schema, lake)
        lake.check_complete()
        note_filled(opened, name)
    lake.evolve(schema)
    return lake


@tenacity.retry(retry=tenacity.retry_if_exception_type(LakeError), stop=tenacity.stop_after_attempt(3), reraise=True)
def _make_lake(settings: str, name: str, schema: pa.Schema, stream: Stream, unit: str) -> LakeTable:
    """Make the table of a lake, unless another tiering makes it, or its namespace, at the same moment."""
    return LakeTable.load(settings, name) or LakeTable.create(settings, name, schema, stream, unit)


def _hold(opened: OpenTable, cut: StreamCut) -> None:
    """Let retention keep what follows a cut, if the stream has retention at all."""
    pravega, stream = opened.pravega, opened.stream
    if pravega.controller.stream_configuration(stream).retention is not None:
        Consumer.register(pravega, stream, f"lake-of-{stream.name}", cut)


def _truncate(catalog: Catalog, opened: OpenTable, lake: LakeTable, began: float) -> tuple[bool, str | None]:
    """Remove from the stream what the lake has, and `lake.keep` does not keep; return whether, and who holds it.

    Queries that were planned a while before the call may still read what the lake has got since from the stream.
    """
    keep = opened.options.get(o.LAKE_KEEP)
    since = None if keep is None else lake.find_cut_since(round((began - min(keep, _IN_FLIGHT).total_seconds()) * 1000))
    if keep is None or since is None:
        return False, None
    (number, cut), log = since, CommitLog(opened.pravega, opened.stream)
    newest = log.find_newest_by(round((time.time() - keep.total_seconds()) * 1_000_000))
    version = log.version(number) if newest is not None and newest.number > number else newest
    if version is None or not lies_within(version.cut, cut):
        return False, None
    held_by = truncate_unless_held(catalog, version.cut)
    return held_by is None, held_by
