"""Procedures on a table's history: tags, the commit log, and the record of queries that write to the table."""

from __future__ import annotations

from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType

from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.insert import ledger
from pyspark_pravega.datasource.positions import points_in_time
from pyspark_pravega.datasource.positions.tags import Tags
from pyspark_pravega.errors import ConditionalUpdateError, InvalidOptionError

from ..metadata.metadata_table import Rows, column
from ..writing.compaction import compact
from .procedure import DRY_RUN, TABLE, Call, flag, parameter, procedure

_RIGHTS = "READ_UPDATE on the stream and on `pyspark-pravega-commits` of its scope"
_TAG = column("tag", StringType(), "its name", nullable=False)
_TRUNCATE = flag("truncate", "whether to remove the changes before them, with the versions that show them")
_REPLACE = flag("replace", "whether a tag of this name may be there, and is replaced")


@procedure(
    "Names a position of a table for VERSION AS OF.",
    (
        TABLE,
        parameter("tag", "its name"),
        parameter("version", "a version, a tag or a stream cut; by default the end of the table now", optional=True),
        _REPLACE,
    ),
    (
        _TAG,
        column("version", LongType(), "the one that ends there, if one does"),
        column("stream_cut", StringType(), "the position", nullable=False),
    ),
    _RIGHTS,
)
def create_tag(call: Call) -> Rows:
    stream, name = call.find_stream(), call.require("tag")
    tag = points_in_time.create_tag(
        call.catalog.pravega, stream, name, call.arguments.get("version"), replace=call.is_set(_REPLACE)
    )
    yield tag.name, tag.version, tag.cut.to_text()


@procedure(
    "Removes a tag. The events stay.",
    (TABLE, parameter("tag", "its name"), DRY_RUN),
    (
        _TAG,
        column("version", LongType(), "the one that ended there, if one did"),
        column("stream_cut", StringType(), "where it was; null if there was none of this name"),
        column("dropped", BooleanType(), "whether it was removed", nullable=False),
    ),
    _RIGHTS,
)
def drop_tag(call: Call) -> Rows:
    tags, name = Tags(call.catalog.pravega, call.find_stream()), call.require("tag")
    existing = next((tag for tag in tags.all() if tag.name == name), None)
    dropped = tags.drop(name) if existing is not None and not call.is_set(DRY_RUN) else False
    version, cut = (None, None) if existing is None else (existing.version, existing.cut.to_text())
    yield name, version, cut, dropped


@procedure(
    "Folds all old versions of the commit log into checkpoints, as commits do over time. No version is lost.",
    (TABLE,),
    (
        column("versions", LongType(), "that the table has", nullable=False),
        column("checkpoints", IntegerType(), "that were made", nullable=False),
    ),
    _RIGHTS,
)
def compact_history(call: Call) -> Rows:
    log, removed = CommitLog(call.catalog.pravega, call.find_stream()), 0
    while True:
        try:
            some = log.fold()
        except ConditionalUpdateError:
            continue  # a writer is folding at the same time
        removed += some
        if not some:
            break
    yield log.newest(), removed


@procedure(
    "Writes the current rows of a table of changes once more, so that the changes before them are not needed any more.",
    (TABLE, _TRUNCATE),
    (
        column("rows", LongType(), "that were written again", nullable=False),
        column("bytes_before", LongType(), "of the stream before it", nullable=False),
        column("bytes_after", LongType(), "of the stream after it", nullable=False),
        column("stream_cut", StringType(), "what lies before it is not needed for the current rows", nullable=False),
        column("truncated", BooleanType(), "whether what lies before it was removed", nullable=False),
        column("held_by", StringType(), "a consumer that still needs it, so that it was not removed"),
    ),
    _RIGHTS,
)
def compact_changes(call: Call) -> Rows:
    done = compact(call.catalog, call.find_stream(), truncate=call.is_set(_TRUNCATE))
    yield done.rows, done.bytes_before, done.bytes_after, done.cut.to_text(), done.truncated, done.held_by


@procedure(
    "Makes a table forget which micro-batches of a streaming query it has. What they wrote stays, and the query may "
    "write any of them again. A run that continues fails at its next micro-batch.",
    (
        TABLE,
        parameter("query", "its id, as in its progress and in the file `metadata` of its checkpoint"),
        parameter("batch", "the newest micro-batch, as dry_run shows it", LongType(), optional=True),
        DRY_RUN,
    ),
    (
        column("query", StringType(), "its id", nullable=False),
        column("batch", LongType(), "the newest micro-batch that the table had", nullable=False),
        column("run", StringType(), "the id of the run that wrote it"),
        column("reset", BooleanType(), "whether it was done", nullable=False),
    ),
    _RIGHTS,
)
def reset_query(call: Call) -> Rows:
    stream, query = call.find_stream(), call.require("query")
    log = CommitLog(call.catalog.pravega, stream)
    row = ledger.find_row_of_query(log, stream, query)
    dry = call.is_set(DRY_RUN)
    if not dry:
        batch = call.arguments.get("batch")
        if batch is None or int(batch) != row.epoch:
            said = "The argument 'batch' is needed" if batch is None else f"'batch' => {batch} is not the newest one"
            if row.epoch < 0:
                raise InvalidOptionError(f"{said}: stream {stream} has forgotten the micro-batches of query {query}.")
            raise InvalidOptionError(
                f"{said}: stream {stream} has the micro-batches of query {query} up to number {row.epoch}. Stop the "
                "query, check with dry_run => true that the number stays the same, and pass it as 'batch'. If it "
                "grows, the query is still running."
            )
        ledger.reset_query(call.catalog.pravega, stream, log, row)
    yield query, row.epoch, row.runs[-1] if row.runs else None, not dry
