"""The procedures that start a streaming query, which servers then keep running, and stop it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from operator import eq
from typing import Any

from pyspark.sql.types import BooleanType, IntegerType, LongType, MapType, StringType

from pyspark_pravega import errors
from pyspark_pravega.datasource.kinds.opening import open_table
from pyspark_pravega.errors import shorten
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.identifiers import hyphenate, quote, quote_all, split_name
from pyspark_pravega.sql.option_types import Option

from ..metadata.metadata_table import Rows, column
from ..name_resolution import find_in_scope
from ..protocol import Identifier, QueryFacts
from ..running.kept_query import KeptQueries, KeptQuery, QueryDefinition, QueryState, QueryStatus, read_clock
from ..running.leases import take_lease
from ..running.tending import QueryServers
from ..storage.spelling import resolve_scope
from ..tables import views
from ..writing.insert_start import select_write_options
from .procedure import DRY_RUN, Acting, Call, parameter, procedure
from .savepoints import find_row, save

_LONGEST_NAME = 200
_FIRST_SPARK = (4, 3)
"""The first version of Spark that analyzes an INSERT which reads a STREAM."""
_LOOK_SECONDS = 0.1
_START_SECONDS = 300.0
"""How long a call waits for a server to start a query."""
_STOP_SECONDS = 180.0
"""How long a call waits for a server to stop a query."""
_REAL_TIME = re.compile(r"\s*real[\s-]*time", re.IGNORECASE)
_NAME = column("name", StringType(), "its name", nullable=False)


@procedure(
    "Starts a streaming query, which servers keep running until stop_query.",
    (
        parameter("name", "the query's name, unique in the catalog"),
        parameter("query", "SELECT ... FROM STREAM ..., with the columns of the table in their order"),
        parameter("into", "the table that gets its rows, as '<namespace>.<table>'"),
        parameter("checkpoint", "its own directory, where Spark notes how far it has read"),
        parameter(
            "trigger", "an interval, or 'available now'; by default the next batch begins at once", optional=True
        ),
        parameter("output_mode", "append or, into a table with keys, update; by default append", optional=True),
        parameter("retries", "how often in a row it is started again; by default always", IntegerType(), optional=True),
        parameter(
            "options", "write options, as map('<key>', '<value>')", MapType(StringType(), StringType()), optional=True
        ),
    ),
    (
        _NAME,
        column("state", StringType(), "RUNNING, or what it has come to since", nullable=False),
        column("into", StringType(), "the table that gets its rows", nullable=False),
        column("checkpoint", StringType(), "where Spark notes how far it has read", nullable=False),
        column("server", StringType(), "the driver that runs it", nullable=False),
    ),
    "READ on what the query reads, READ_UPDATE on the table and on its scope",
)
def start_query(call: Call) -> Rows:
    catalog, arguments, facts = call.catalog, call.arguments, call.facts
    name = _check_name(call.require("name"))
    call.require("query")
    assert facts is not None  # they come with the query
    if tuple(int(part) for part in re.findall(r"\d+", facts.spark)[:2]) < _FIRST_SPARK:
        raise errors.UnsupportedOperationError(
            f"start_query needs Spark 4.3 or newer, but this is {facts.spark}. Start the query in Python: "
            "spark.sql('SELECT ... FROM STREAM ...').writeStream.option('checkpointLocation', '...').toTable('<t>')."
        )
    if catalog.user is not None:
        raise errors.UnsupportedOperationError(
            f"start_query cannot be used with '{o.USER_LOGINS.key}': a query outlives its session, and other servers "
            "could not tell whose rights it has. Run it in a driver of its own, by 'pyspark-pravega run'."
        )
    if facts.own_conf:
        raise errors.UnsupportedOperationError(
            f"Queries run with the conf of catalog {catalog.name} that Spark was started with, but this session has "
            f"another. Set spark.sql.catalog.{catalog.name}.* when Spark starts, not in a session."
        )
    if not facts.streaming:
        raise errors.InvalidOptionError(
            f"The 'query' of {name} reads no STREAM, so it has nothing to wait for. Write FROM STREAM <table>, or run "
            "it once as INSERT INTO."
        )
    scope, into = _check_into(call, facts)
    definition = QueryDefinition(
        query=arguments["query"].strip().rstrip(";"),
        into=into,
        checkpoint=call.find_directory("checkpoint"),
        trigger=_check_trigger(arguments),
        output_mode=_check(arguments, "output_mode", o.OUTPUT_MODE) or "append",
        retries=_check_retries(arguments),
        catalog=None if facts.catalog == catalog.name else facts.catalog,
        namespace=facts.namespace,
        settings=facts.settings,
        options=_check_options(call, into),
    )
    queries = KeptQueries(catalog)
    lease = catalog.options().get(o.QUERIES_LEASE).total_seconds()
    status = QueryStatus(QueryState.STARTING, facts.server, read_clock(), read_clock(), lease=lease)
    requested = KeptQuery(scope, name, definition, status)
    former = _find_former(queries, requested)
    kept = _claim(queries, requested, former)
    call.servers.get(catalog, facts.server).adopt(kept)
    kept = _wait_for_start(queries, kept, former)
    yield name, kept.status.state, quote_all((catalog.name,)) + "." + into, definition.checkpoint, facts.server


def _check_name(name: str) -> str:
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise errors.InvalidNameError(
            f"A query cannot be named '{shorten(name)}'. Give it 1 to {_LONGEST_NAME} visible characters."
        )
    return name


def _check_into(call: Call, facts: QueryFacts) -> tuple[str, str]:
    """Return the scope of the table that the query writes to, and its name in SQL. Raises StreamNotFoundError."""
    catalog, into = call.catalog, call.name_table("into")
    shown = catalog.named(*into.parts)
    if views.find(catalog, into) is not None:
        raise errors.UnsupportedOperationError(f"'into' is the view {shown}, but a query writes into a table.")
    if not find_in_scope(catalog, into).exists():
        columns = ", ".join(f"{quote(field.name)} {field.dataType.simpleString().upper()}" for field in facts.schema)
        raise errors.StreamNotFoundError(
            f"There is no table {shown}, which 'into' names. Create it first: "
            f"CREATE TABLE {shown} ({columns}) USING pravega"
        )
    return resolve_scope(catalog, into.namespace), quote_all(into.parts)


def _check_trigger(arguments: Mapping[str, str]) -> str | None:
    if _REAL_TIME.match(arguments.get("trigger", "")):
        raise errors.UnsupportedOperationError(
            f"'trigger' => '{arguments['trigger']}' is not supported: real-time mode is for programs, with "
            "trigger(realTime='5 minutes') in Python. Leave 'trigger' out, and a micro-batch begins as soon as the one "
            "before has ended."
        )
    return _check(arguments, "trigger", o.TRIGGER_OF_BATCHES)


def _check_options(call: Call, into: str) -> dict[str, str]:
    """Return the options of the write. Raises InvalidOptionError for those that writeStream would refuse."""
    texts: dict[str, str | None] = json.loads(call.arguments.get("options", "{}"))
    if missing := next((key for key, text in texts.items() if text is None), None):
        raise errors.InvalidOptionError(f"The option '{missing}' is NULL. Give it a value, or leave it out.")
    options = {key: text for key, text in texts.items() if text is not None}
    if options:
        namespace, table = split_name(into)
        described = find_in_scope(call.catalog, Identifier((namespace,), table)).load_table({}, writing=True)
        write = call.catalog.options(write=select_write_options(described.table, options))
        open_table(call.catalog.pravega, described.table, write).prepare_insert(described.schema)
    return options


def _check(arguments: Mapping[str, str], name: str, option: Option[Any]) -> str | None:
    """Return the text of an argument that has the values of an option. Raises InvalidOptionError."""
    if name not in arguments:
        return None
    text = arguments[name].strip()
    try:
        if option.type.parse(text) == "once":
            raise ValueError("expected an interval such as 10 seconds or 5 min, or: available now")
    except ValueError as error:
        raise errors.InvalidOptionError(f"'{name}' => '{text}' is not valid: {error}.") from None
    return text


def _check_retries(arguments: Mapping[str, str]) -> int | None:
    if "retries" not in arguments:
        return None
    if (retries := int(arguments["retries"])) < 0:
        raise errors.InvalidOptionError(
            f"'retries' => {retries} is not valid. Give 0 or more, or leave it out for no limit."
        )
    return retries


def _find_former(queries: KeptQueries, requested: KeptQuery) -> KeptQuery | None:
    """Return the same query as it was started earlier. Raises QueryExistsError if another is in the way."""
    former = None
    for other in queries.all(age=0):
        is_same_checkpoint = other.definition.has_checkpoint(requested.definition.checkpoint)
        if other.name != requested.name and is_same_checkpoint:
            raise errors.QueryExistsError(
                f"The checkpoint {requested.definition.checkpoint} belongs to the query '{other.name}'. Give each "
                "query its own."
            )
        if other.name != requested.name:
            continue
        # It is the same query whatever the settings of the sessions are, and however its checkpoint is written.
        definition = replace(other.definition, settings=requested.definition.settings)
        if is_same_checkpoint:
            definition = replace(definition, checkpoint=requested.definition.checkpoint)
        if (other.scope, definition) != (requested.scope, requested.definition):
            raise errors.QueryExistsError(
                f"A different query '{requested.name}' exists already: it writes into {other.definition.into}, and its "
                f"state is {other.status.state}. Choose another name, or end it with stop_query."
            )
        former = other
    return former


def _claim(queries: KeptQueries, requested: KeptQuery, former: KeptQuery | None) -> KeptQuery:
    """Keep a new query, or take over the same one that nobody runs. Raises QueryExistsError."""
    if former is not None:
        taken = None  # as long as a server may renew its lease
        if former.status.server is None or _is_abandoned(queries, former):
            renewed, status = replace(former, definition=requested.definition), requested.status
            taken = take_lease(queries, renewed, status.server or "", status.lease, by_user=True)
        if taken is None:
            raise errors.QueryExistsError(
                f"The query '{requested.name}' runs already, on {former.status.server}. stop_query ends it."
            )
        return taken

    def claim(current: KeptQuery | None) -> KeptQuery:
        if current is not None:
            raise errors.QueryExistsError(f"There is a query '{requested.name}' already.")
        return requested

    return queries.change(requested.scope, requested.name, claim)


def _is_abandoned(queries: KeptQueries, kept: KeptQuery) -> bool:
    """Watch a query as long as a lease lasts, and return whether its server does not renew it."""
    until = time.monotonic() + kept.status.lease
    while time.monotonic() < until:
        current = queries.read(kept.scope, kept.name)
        if current is None or current.status != kept.status:
            return False
        time.sleep(_LOOK_SECONDS * 5)
    return True


def _wait_for_start(queries: KeptQueries, kept: KeptQuery, former: KeptQuery | None) -> KeptQuery:
    """Wait until a query has started. If it cannot, restore what was before, and raise QueryNotStartedError."""
    until = time.monotonic() + _START_SECONDS
    while True:
        current = queries.read(kept.scope, kept.name)
        if current is None or current.status.epoch != kept.status.epoch:
            raise errors.QueryNotStartedError(f"The query '{kept.name}' was stopped or taken over while it started.")
        if current.status.state is QueryState.FAILED and current.status.started is None:
            _put_back(queries, current, former)
            raise errors.QueryNotStartedError(f"The query '{kept.name}' does not start: {current.status.last_error}")
        starts = current.status.state in (QueryState.STARTING, QueryState.STOPPING)
        if not starts or time.monotonic() > until:
            return current
        time.sleep(_LOOK_SECONDS)


def _put_back(queries: KeptQueries, failed: KeptQuery, former: KeptQuery | None) -> None:
    """Remove a query that did not start; restore one that existed before, but without a server."""
    if former is None:
        queries.remove(failed, partial(eq, failed))
        return
    state = former.status.state if former.status.state.is_final else QueryState.WAITING
    failure = failed.status

    def put_back(current: KeptQuery | None) -> KeptQuery:
        if current is None or current != failed:
            raise errors.QueryNotStartedError(
                f"The query '{failed.name}' did not start, and has been changed since: {failure.last_error}"
            )
        return former.with_status(
            state=state, server=None, epoch=failure.epoch, last_error=failure.last_error, failed_at=failure.failed_at
        )

    queries.change(failed.scope, failed.name, put_back)


@procedure(
    "Stops a streaming query after its micro-batch, and forgets it. Its checkpoint stays.",
    (
        parameter("name", "the query's name"),
        DRY_RUN,
        parameter("into", "the table that it writes to, if several queries have the name", optional=True),
        parameter("savepoint", "a new directory, which becomes its savepoint", optional=True),
    ),
    (
        _NAME,
        column("state", StringType(), "what it did before", nullable=False),
        column("batch", LongType(), "a micro-batch that it had completed by then"),
        column("checkpoint", StringType(), "where Spark has noted how far it has read", nullable=False),
        column("stopped", BooleanType(), "whether it was done", nullable=False),
    ),
    "READ_UPDATE on the scope of the table that it writes to",
)
def stop_query(call: Call) -> Acting[None]:
    queries = KeptQueries(call.catalog)
    kept = _find_to_stop(call, queries)
    stopped = not call.is_set(DRY_RUN)
    names = {"checkpoint": kept.definition.checkpoint, "into": kept.definition.into}
    saving = replace(call, arguments={**call.arguments, **names}) if "savepoint" in call.arguments else None
    if saving is not None:
        yield from find_row(saving)  # what is wrong is known before it stops
    if stopped:
        _stop(queries, call.servers, kept)
        try:
            yield from save(saving) if saving is not None else ()
        except errors.PravegaError as error:
            error.message = (
                f"The query '{kept.name}' was stopped, but has no savepoint. Call create_savepoint, with checkpoint => "
                f"'{kept.definition.checkpoint}' and into => '{kept.definition.into}'. {error.message}"
            )
            raise
    yield kept.name, kept.status.state, kept.status.batch, kept.definition.checkpoint, stopped


def _find_to_stop(call: Call, queries: KeptQueries) -> KeptQuery:
    catalog, name, into = call.catalog, call.require("name"), ""
    queries_named = queries.find(name)
    if "into" in call.arguments:
        named = call.name_table("into")
        into = f" into {catalog.named(*named.parts)}"
        target = resolve_scope(catalog, named.namespace), hyphenate(named.name)
        queries_named = [
            kept for kept in queries_named if (kept.scope, hyphenate(split_name(kept.definition.into)[-1])) == target
        ]
    if not queries_named:
        names = ", ".join(f"'{other.name}'" for other in queries.all())
        raise errors.QueryNotFoundError(f"There is no query '{name}'{into}. The catalog has {names or 'none'}.")
    if len(queries_named) > 1:
        listed = " and ".join(kept.definition.into for kept in queries_named)
        raise errors.InvalidOptionError(
            f"There are {len(queries_named)} queries '{name}': into {listed}. Name the table of the one that you mean: "
            f"into => '{queries_named[0].definition.into}'."
        )
    return queries_named[0]


def _stop(queries: KeptQueries, servers: QueryServers, kept: KeptQuery) -> None:
    """Have a query stopped by its server, and wait for that; remove it if no server runs it."""

    def make_stopping(current: KeptQuery | None) -> KeptQuery:
        if current is None:
            raise errors.QueryNotFoundError(f"The query '{kept.name}' has been stopped in the meantime.")
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
            raise errors.QueryNotStartedError(
                f"The query '{kept.name}' was asked to stop, but {left.status.server} has not stopped it yet."
            )
        time.sleep(_LOOK_SECONDS)
