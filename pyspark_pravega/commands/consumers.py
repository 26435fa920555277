"""The command `pyspark-pravega consumers`: what holds events of streams back from retention."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pyspark_pravega.errors import InvalidNameError, PravegaError, StreamNotFoundError
from pyspark_pravega.sql.identifiers import parts_of

if TYPE_CHECKING:
    from pyspark_pravega.client import Pravega
    from pyspark_pravega.client.consumers.consumer import ConsumerStatus
    from pyspark_pravega.client.stream import Stream

F = TypeVar("F", bound=Callable[..., Any])

_HEADER = ("CONSUMER", "STREAM", "BYTES BEHIND", "POSITION")


@click.group()
def consumers() -> None:
    """The consumers of streams: what the server keeps for whom.

    A streaming query with the option 'consumer' registers one, and moves it with every batch.
    """


def _controller_option(function: F) -> F:
    text = "Controller of Pravega, e.g. tcp://host:9090."
    return click.option("--controller-uri", metavar="URI", help=text)(function)


@consumers.command("list")
@click.argument("table", required=False)
@_controller_option
def list_command(table: str | None, controller_uri: str | None) -> None:
    """List the consumers of a TABLE (pravega.iot.sensor, or iot.sensor), or of all streams.

    BYTES BEHIND are those it holds: what the query has not read, and a micro-batch that Spark has not committed yet,
    which a running query does when the next one begins. The position of a reader group of other clients is not known
    here.
    """
    from pyspark_pravega.client.consumers.consumer import list_consumers_of_scopes
    from pyspark_pravega.sql.identifiers import is_internal

    with _connected(controller_uri) as pravega:
        if table is not None:
            found = _consumers_of(pravega, _stream(table))
        else:
            scopes = [scope for scope in pravega.controller.list_scopes() if not is_internal(scope)]
            found = list(list_consumers_of_scopes(pravega, scopes))
    if not found:
        click.echo("There are no consumers" + (f" of {table}." if table is not None else "."))
        return
    rows = [_HEADER, *(_row(each) for each in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for consumer, stream, behind, position in rows:
        click.echo(f"{consumer:<{widths[0]}}  {stream:<{widths[1]}}  {behind:>{widths[2]}}  {position}")


@consumers.command("drop")
@click.argument("name")
@_controller_option
def drop_command(name: str, controller_uri: str | None) -> None:
    """Drop the consumer NAME, as `list` shows it (scope.name); what it held may be freed then."""
    from pyspark_pravega.client.consumers.consumer import drop_consumer

    with _connected(controller_uri) as pravega:
        scope, consumer = _two_parts(parts_of(name), name, "consumer", "iot.nightly")
        drop_consumer(pravega, scope, consumer)
    click.echo(f"Dropped consumer {name}.")


@contextmanager
def _connected(controller_uri: str | None) -> Iterator[Pravega]:
    from pyspark_pravega.client import connect
    from pyspark_pravega.datasource.workers.connections import client_config, first_contact
    from pyspark_pravega.sql.options import resolve

    settings = {} if controller_uri is None else {"controller-uri": controller_uri}
    try:
        options = resolve(conf=settings, env=os.environ)
        with connect(client_config(options), first_contact=first_contact(options)) as pravega:
            yield pravega
    except PravegaError as error:
        raise click.ClickException(error.for_user()) from error


def _consumers_of(pravega: Pravega, stream: Stream) -> list[ConsumerStatus]:
    from pyspark_pravega.client.consumers.consumer import list_consumers
    from pyspark_pravega.sql.identifiers import did_you_mean, is_internal, nearest, quote_all

    try:
        return list_consumers(pravega, stream)
    except StreamNotFoundError as error:
        try:
            names = [name for name in pravega.controller.list_streams(stream.scope) if not is_internal(name)]
        except PravegaError:
            raise error from None
        near = nearest(stream.name, names)
        hint = did_you_mean(None if near is None else quote_all((stream.scope, near)))
        raise StreamNotFoundError(f"{error.message.rstrip('.')}.{hint}") from error


def _row(found: ConsumerStatus) -> tuple[str, str, str, str]:
    from pyspark_pravega.sql.identifiers import quote_all

    behind = "unknown" if found.bytes_behind is None else f"{found.bytes_behind:,}"
    position = "kept by its readers" if found.position is None else found.position.to_text()
    return quote_all((found.scope, found.name)), quote_all((found.stream.scope, found.stream.name)), behind, position


def _stream(table: str) -> Stream:
    from pyspark_pravega.client.stream import Stream
    from pyspark_pravega.sql.identifiers import hyphenated

    parts = parts_of(table)
    if len(parts) == 3:
        parts = parts[1:]  # the catalog's name
    scope, name = _two_parts(parts, table, "table", "iot.sensor")
    return Stream(hyphenated(scope), hyphenated(name))  # as in SQL


def _two_parts(parts: Sequence[str], name: str, kind: str, example: str) -> tuple[str, str]:
    if len(parts) != 2:
        raise InvalidNameError(
            f"'{name}' is not the name of a {kind}: write its scope and its name, for example {example}, and a part "
            "with '.' in it in backticks"
        )
    return parts[0], parts[1]
