"""Has a table tiered again and again: a row among those of streaming queries says so, and one server carries it out."""

from __future__ import annotations

from datetime import timedelta

from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import PermissionDeniedError, UnsupportedOperationError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import quote_all

from ..storage.catalogs import Catalog
from .kept_query import KeptQueries, KeptQuery, QueryDefinition, QueryState, QueryStatus, read_clock

TIERING = "CALL system.tier"
"""What such a row has in place of a query. The table to tier is the one that it writes into."""


def keep_tiering(catalog: Catalog, stream: Stream, interval: timedelta | None) -> None:
    """Keep a row that has a table tiered at an interval, or remove the one that there is if the interval is None.

    A server of the catalog takes the row up, and stops its run of a row that is gone. Raises UnsupportedOperationError
    for an interval in a catalog whose users log in, as `start_query` does.
    """
    if interval is not None and catalog.user is not None:
        raise UnsupportedOperationError(
            f"'{o.TIER_INTERVAL.key}' cannot be used with '{o.USER_LOGINS.key}': servers could not tell whose rights "
            "a tiering has. Unset it, and call tier from time to time."
        )
    queries, name = KeptQueries(catalog), f"tier-of-{stream}"
    try:
        kept = queries.read(stream.scope, name)
    except PermissionDeniedError:
        if interval is None:
            return  # who may not see the row has not made it
        raise
    definition = None if interval is None else _define(stream, interval)
    if kept is not None and kept.definition != definition:
        queries.remove(kept)
        kept = None
    if kept is None and definition is not None:
        status = QueryStatus(QueryState.WAITING, None, read_clock(), read_clock())
        row = KeptQuery(stream.scope, name, definition, status)
        queries.change(stream.scope, name, lambda current: current or row)


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
