"""The tables of the namespace `system`, which are about the catalog: `queries`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NoReturn

from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructType, TimestampType

from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import UnsupportedOperationError

from ..protocol.service_replies import MetadataDescription
from ..running.kept_query import KeptQueries, KeptQuery, QueryState, read_clock
from .metadata_table import NamedMetadata, Rows, column

NAMESPACE = "system"
QUERIES = "queries"
_COLUMNS = StructType(
    [
        column("name", StringType(), "unique in the catalog", nullable=False),
        column(
            "state", StringType(), "STARTING, RUNNING, RETRYING, STOPPING, WAITING, FAILED, FINISHED", nullable=False
        ),
        column("query", StringType(), "its text", nullable=False),
        column("into", StringType(), "the table that gets its rows", nullable=False),
        column("trigger", StringType(), "when a micro-batch begins; null: at once"),
        column("batch", LongType(), "the last micro-batch that was completed"),
        column("rows_per_second", DoubleType(), "that it read in its last micro-batch"),
        column("bytes_behind", LongType(), "unread bytes of its streams, by its last micro-batch"),
        column("seconds_behind", DoubleType(), "age of the oldest unread version, by its last micro-batch"),
        column("failures", IntegerType(), "in a row, since a micro-batch was completed", nullable=False),
        column("last_error", StringType(), "why it last failed"),
        column("failed_at", TimestampType(), "when it last failed"),
        column("started_at", TimestampType(), "when its current or last run began"),
        column("updated_at", TimestampType(), "when its server last reported it", nullable=False),
        column("server", StringType(), "the driver that runs it"),
        column("checkpoint", StringType(), "where Spark notes how far it has read", nullable=False),
        column("options", StringType(), "write options as a JSON object; null: none"),
        column("query_id", StringType(), "Spark's id of the query, under which tables know its micro-batches"),
        column("sources", StringType(), "what it reads, by its last micro-batch"),
        column("rows_written_per_second", DoubleType(), "that it wrote in its last micro-batch; null: not known"),
    ]
)


def list_tables(namespace: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the tables about the catalog in a namespace, which may be a scope too."""
    return (QUERIES,) if list(namespace) == [NAMESPACE] else ()


def has_table(namespace: Sequence[str], name: str) -> bool:
    """Return whether this is the name of such a table. It hides a stream of the same name."""
    return name.lower() in list_tables(namespace)


class TableOfCatalog(NamedMetadata):
    @property
    def shown(self) -> str:
        return self.catalog.named(NAMESPACE, self.identifier.name.lower())

    def describe(self) -> MetadataDescription:
        return MetadataDescription(self.shown, _COLUMNS)

    def list_rows(self) -> Rows:
        for kept in KeptQueries(self.catalog).all():
            definition, status = kept.definition, kept.status
            running = _find_state(kept) not in (QueryState.WAITING, QueryState.FAILED, QueryState.FINISHED)
            yield (
                kept.name,
                str(_find_state(kept)),
                definition.query,
                f"{self.catalog.named()}.{definition.into}",
                definition.trigger,
                status.batch,
                status.rows_per_second if running else None,
                status.bytes_behind,
                status.seconds_behind,
                status.failures,
                status.last_error,
                status.failed_at,
                status.started,
                status.renewed,
                status.server if running else None,
                definition.checkpoint,
                json.dumps(dict(definition.options)) if definition.options else None,
                status.query_id,
                ", ".join(status.sources) or None,
                status.rows_written_per_second if running else None,
            )

    def exists(self) -> bool:
        return True

    def confirm_existence(self) -> bool:
        return True

    def refuse(self, statement: str, loaded: StreamTable | None) -> NoReturn:
        if statement == "readStream.table":
            raise UnsupportedOperationError(
                f"{self.shown} cannot be read as a stream. Query it again for its present rows."
            )
        self.refuse_change()

    def refuse_change(self) -> NoReturn:
        raise UnsupportedOperationError(
            f"{self.shown} lists the streaming queries of the catalog, and can only be read. CALL "
            f"{self.catalog.named(NAMESPACE, 'start_query')} and {self.catalog.named(NAMESPACE, 'stop_query')} "
            "change it."
        )


def _find_state(kept: KeptQuery) -> QueryState:
    """Return the state of a query. If its server no longer reports it, it waits for another server.

    Nothing but this display depends on whether the clocks of two machines agree.
    """
    silent = read_clock() - kept.status.renewed > 2 * kept.status.lease * 1_000_000
    return QueryState.WAITING if silent and not kept.status.state.is_final else kept.status.state
