"""The procedure on what a table knows of the streaming queries that write to it."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import BooleanType, LongType, StringType, StructType

from pyspark_pravega.datasource.commit_log import CommitLog
from pyspark_pravega.datasource.insert.reset import reset, row_of_query
from pyspark_pravega.errors import InvalidOptionError

from ..connections import Catalog
from ..metadata.table import Rows, column
from .procedure import DRY_RUN, TABLE, Procedure, is_set, parameter, required, stream_of


def _reset_query(catalog: Catalog, arguments: Mapping[str, str]) -> Rows:
    stream, query = stream_of(catalog, arguments), required(arguments, "query")
    log = CommitLog(catalog.pravega, stream)
    row = row_of_query(log, stream, query)
    dry = is_set(arguments, DRY_RUN)
    if not dry:
        batch = arguments.get("batch")
        if batch is None or int(batch) != row.epoch:
            said = "The argument 'batch' is needed" if batch is None else f"'batch' => {batch} is not the newest one"
            if row.epoch < 0:
                raise InvalidOptionError(f"{said}: stream {stream} has forgotten the micro-batches of query {query}.")
            raise InvalidOptionError(
                f"{said}: stream {stream} has the micro-batches of query {query} up to number {row.epoch}. Stop the "
                "query, look by dry_run => true that the number stays, and give it as 'batch'. A number that grows is "
                "that of a query which runs."
            )
        reset(catalog.pravega, stream, log, row)
    yield query, row.epoch, row.runs[-1] if row.runs else None, not dry


RESET_QUERY = Procedure(
    "reset_query",
    "Makes a table forget which micro-batches of a streaming query it has. What they wrote stays, and the query may "
    "write any of them again. A run that goes on fails at its next micro-batch.",
    (
        TABLE,
        parameter("query", "its id, as in its progress and in the file `metadata` of its checkpoint"),
        parameter("batch", "the newest micro-batch, as dry_run tells it", LongType(), optional=True),
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
    "READ_UPDATE on the stream and on `pyspark-pravega-commits` of its scope",
    _reset_query,
)
