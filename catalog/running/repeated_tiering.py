"""Has a table tiered again and again: a row among those of streaming queries says so, and one server carries it out."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import PermissionDeniedError, QueryExistsError, UnsupportedOperationError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import quote_all

from ..storage.catalogs import Catalog
from .kept_query import KeptQueries, KeptQuery, QueryDefinition, QueryState, QueryStatus, read_clock

TIERING = "CALL system.tier"
"""What such a row has in place of a query. The table to tier is the one that it writes into."""


def check_logins(catalog: Catalog) -> None:
    """Raise UnsupportedOperationError in a catalog whose users log in, as `start_query` does."""
    if catalog.user is not None:
        raise UnsupportedOperationError(
            f"'{o.TIER_INTERVAL.key}' cannot be used with '{o.USER_LOGINS.key}': servers could not tell whose rights "
            "a tiering has. Unset it, and call tier from time to time."
        )


def keep_tiering(catalog: Catalog, stream: Stream, interval: timedelta) -> None:
    """Keep a row that has a table tiered at an interval, which a server of the catalog takes up.

    A row with another interval is replaced. Raises QueryExistsError if a streaming query has its name.
    """
    queries, definition = KeptQueries(catalog), _define(stream, interval)
    kept = queries.read(stream.scope, name_tiering(stream))
    if kept is not None and kept.definition.query != TIERING:
        raise QueryExistsError(f"A query has the name '{kept.name}' already, which the tiering of the table needs.")
    if kept is not None and kept.definition != definition:
        queries.remove(kept)
        kept = None
    if kept is None:
        status = QueryStatus(QueryState.WAITING, None, read_clock(), read_clock())
        row = KeptQuery(stream.scope, name_tiering(stream), definition, status)
        queries.change(stream.scope, row.name, lambda current: current or row)


def end_tiering(catalog: Catalog, stream: Stream) -> None:
    """Remove the row that has a table tiered, if there is one: its server stops then."""
    queries = KeptQueries(catalog)
    with suppress(PermissionDeniedError):  # who may not see the row has not made it
        kept = queries.read(stream.scope, name_tiering(stream))
        if kept is not None and kept.definition.query == TIERING:
            queries.remove(kept)


def name_tiering(stream: Stream) -> str:
    """Return the name that the row of a stream's table has among streaming queries."""
    return f"tier-of-{stream}"


def _define(stream: Stream, interval: timedelta) -> QueryDefinition:
    return QueryDefinition(
        query=TIERING,
        into=quote_all((stream.scope, stream.name)),
        checkpoint="",
        trigger=f"{interval // timedelta(milliseconds=1)} milliseconds",
        output_mode="append",
        retries=None,
        catalog=None,
        namespace=(),
        settings={},
    )
