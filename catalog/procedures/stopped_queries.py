"""The procedure that stops a streaming query of start_query."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from operator import eq

from pyspark.sql.types import BooleanType, LongType, StringType

from pyspark_pravega.errors import InvalidOptionError, QueryNotFoundError, QueryNotStartedError
from pyspark_pravega.sql.identifiers import hyphenate, split_name

from ..metadata.metadata_table import Rows, column
from ..running.kept_query import KeptQueries, KeptQuery, QueryState
from ..running.tending import QueryServers
from ..storage.spelling import resolve_scope
from .procedure import DRY_RUN, Call, parameter, procedure
from .queries import NAME

_LOOK_SECONDS = 0.1
_STOP_SECONDS = 180.0
"""How long a call waits for a server to stop a query."""


@procedure(
    "Stops a streaming query after its micro-batch, and forgets it. Its checkpoint stays.",
    (
        parameter("name", "the query's name"),
        DRY_RUN,
        parameter("into", "the table that it writes to, if several queries have the name", optional=True),
    ),
    (
        NAME,
        column("state", StringType(), "what it did before", nullable=False),
        column("batch", LongType(), "a micro-batch that it had completed by then"),
        column("checkpoint", StringType(), "where Spark has noted how far it has read", nullable=False),
        column("stopped", BooleanType(), "whether it was done", nullable=False),
    ),
    "READ_UPDATE on the scope of the table that it writes to",
)
def stop_query(call: Call) -> Rows:
    queries = KeptQueries(call.catalog)
    kept = _find_to_stop(call, queries)
    stopped = not call.is_set(DRY_RUN)
    if stopped:
        _stop(queries, call.servers, kept)
    yield kept.name, kept.status.state, kept.status.batch, kept.definition.checkpoint, stopped


def _find_to_stop(call: Call, queries: KeptQueries) -> KeptQuery:
    catalog, name, into = call.catalog, call.require("name"), ""
    queries_named = queries.find(name)
    if "into" in call.arguments:
        named = call.name_table("into")
        into = f" into {catalog.named(*named.parts)}"
        scope = resolve_scope(catalog, named.namespace)
        queries_named = [kept for kept in queries_named if kept.scope == scope and _is_into(kept, named.name)]
    if not queries_named:
        names = ", ".join(f"'{other.name}'" for other in queries.all())
        raise QueryNotFoundError(f"There is no query '{name}'{into}. The catalog has {names or 'none'}.")
    if len(queries_named) > 1:
        listed = " and ".join(kept.definition.into for kept in queries_named)
        raise InvalidOptionError(
            f"There are {len(queries_named)} queries '{name}': into {listed}. Name the table of the one that you mean: "
            f"into => '{queries_named[0].definition.into}'."
        )
    return queries_named[0]


def _is_into(kept: KeptQuery, table: str) -> bool:
    return hyphenate(split_name(kept.definition.into)[-1]) == hyphenate(table)


def _stop(queries: KeptQueries, servers: QueryServers, kept: KeptQuery) -> None:
    """Have a query stopped by its server, and wait for that; remove it if no server runs it."""

    def make_stopping(current: KeptQuery | None) -> KeptQuery:
        if current is None:
            raise QueryNotFoundError(f"The query '{kept.name}' has been stopped in the meantime.")
        # Also if no server has it, because one may take it at this moment.
        return replace(current, status=replace(current.status, state=QueryState.STOPPING))

    stopping = queries.change(kept.scope, kept.name, make_stopping)
    servers.wake()
    # The lease of a server that has died is over by then.
    until = time.monotonic() + max(_STOP_SECONDS, stopping.status.lease + 10)
    seen, since = stopping.status.renewed, time.monotonic()
    while True:
        left = queries.read(kept.scope, kept.name)
        if left is None:
            return
        moment = time.monotonic()
        if left.status.renewed != seen:
            seen, since = left.status.renewed, moment
        if left.status.server is None or moment > since + left.status.lease:
            if queries.remove(left, partial(eq, left)):
                return
        elif moment > until:
            raise QueryNotStartedError(
                f"The query '{kept.name}' was asked to stop, but {left.status.server} has not stopped it yet."
            )
        time.sleep(_LOOK_SECONDS)
