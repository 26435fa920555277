"""Procedures on a table's history: tags, the commit log, and the record of queries that write to the table."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructType

from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.insert.ledger import find_row_of_query, reset_query
from pyspark_pravega.datasource.positions.points_in_time import create_tag
from pyspark_pravega.datasource.positions.tags import Tags
from pyspark_pravega.errors import ConditionalUpdateError, InvalidOptionError

from ..metadata.metadata_table import Rows, column
from ..storage.catalogs import Catalog
from .procedure import DRY_RUN, TABLE, Procedure, find_stream, flag, is_set, parameter, require

_RIGHTS = "READ_UPDATE on the stream and on `pyspark-pravega-commits` of its scope"
_TAG = column("tag", StringType(), "its name", nullable=False)
_REPLACE = flag("replace", "whether a tag of this name may be there, and is replaced")


def _create_tag(catalog: Catalog, arguments: Mapping[str, str]) -> Rows:
    stream, name = find_stream(catalog, arguments), require(arguments, "tag")
    tag = create_tag(catalog.pravega, stream, name, arguments.get("version"), replace=is_set(arguments, _REPLACE))
    yield tag.name, tag.version, tag.cut.to_text()


def _drop_tag(catalog: Catalog, arguments: Mapping[str, str]) -> Rows:
    tags, name = Tags(catalog.pravega, find_stream(catalog, arguments)), require(arguments, "tag")
    existing = next((tag for tag in tags.all() if tag.name == name), None)
    dropped = tags.drop(name) if existing is not None and not is_set(arguments, DRY_RUN) else False
    yield (
        name,
        None if existing is None else existing.version,
        None if existing is None else existing.cut.to_text(),
        dropped,
    )


def _compact_history(catalog: Catalog, arguments: Mapping[str, str]) -> Rows:
    log, removed = CommitLog(catalog.pravega, find_stream(catalog, arguments)), 0
    while True:
        try:
            some = log.fold()
        except ConditionalUpdateError:
            continue  # a writer is folding at the same time
        removed += some
        if not some:
            break
    yield log.newest(), removed


def _reset_query(catalog: Catalog, arguments: Mapping[str, str]) -> Rows:
    stream, query = find_stream(catalog, arguments), require(arguments, "query")
    log = CommitLog(catalog.pravega, stream)
    row = find_row_of_query(log, stream, query)
    dry = is_set(arguments, DRY_RUN)
    if not dry:
        batch = arguments.get("batch")
        if batch is None or int(batch) != row.epoch:
            said = "The argument 'batch' is needed" if batch is None else f"'batch' => {batch} is not the newest one"
            if row.epoch < 0:
                raise InvalidOptionError(f"{said}: stream {stream} has forgotten the micro-batches of query {query}.")
            raise InvalidOptionError(
                f"{said}: stream {stream} has the micro-batches of query {query} up to number {row.epoch}. Stop the "
                "query, check with dry_run => true that the number stays the same, and pass it as 'batch'. If it "
                "grows, the query is still running."
            )
        reset_query(catalog.pravega, stream, log, row)
    yield query, row.epoch, row.runs[-1] if row.runs else None, not dry


CREATE_TAG = Procedure(
    "create_tag",
    "Names a position of a table for VERSION AS OF.",
    (
        TABLE,
        parameter("tag", "its name"),
        parameter("version", "a version, a tag or a stream cut; by default the end of the table now", optional=True),
        _REPLACE,
    ),
    StructType(
        [
            _TAG,
            column("version", LongType(), "the one that ends there, if one does"),
            column("stream_cut", StringType(), "the position", nullable=False),
        ]
    ),
    _RIGHTS,
    _create_tag,
)
DROP_TAG = Procedure(
    "drop_tag",
    "Removes a tag. The events stay.",
    (TABLE, parameter("tag", "its name"), DRY_RUN),
    StructType(
        [
            _TAG,
            column("version", LongType(), "the one that ended there, if one did"),
            column("stream_cut", StringType(), "where it was; null if there was none of this name"),
            column("dropped", BooleanType(), "whether it was removed", nullable=False),
        ]
    ),
    _RIGHTS,
    _drop_tag,
)
COMPACT_HISTORY = Procedure(
    "compact_history",
    "Folds all old versions of the commit log into checkpoints, as commits do over time. No version is lost.",
    (TABLE,),
    StructType(
        [
            column("versions", LongType(), "that the table has", nullable=False),
            column("checkpoints", IntegerType(), "that were made", nullable=False),
        ]
    ),
    _RIGHTS,
    _compact_history,
)
RESET_QUERY = Procedure(
    "reset_query",
    "Makes a table forget which micro-batches of a streaming query it has. What they wrote stays, and the query may "
    "write any of them again. A run that continues fails at its next micro-batch.",
    (
        TABLE,
        parameter("query", "its id, as in its progress and in the file `metadata` of its checkpoint"),
        parameter("batch", "the newest micro-batch, as dry_run shows it", LongType(), optional=True),
        DRY_RUN,
    ),
    StructType(
        [
            column("query", StringType(), "its id", nullable=False),
            column("batch", LongType(), "the newest micro-batch that the table had", nullable=False),
            column("run", StringType(), "the id of the run that wrote it"),
            column("reset", BooleanType(), "whether it was done", nullable=False),
        ]
    ),
    _RIGHTS,
    _reset_query,
)
