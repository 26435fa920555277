"""The command `pyspark-pravega consumers`: list and drop what protects events of streams from retention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from pyspark_pravega.errors import InvalidNameError, PravegaError, StreamNotFoundError
from pyspark_pravega.sql.identifiers import split_name

from .server_commands import add_server_options, connect_client
from .show_output import print_rows

if TYPE_CHECKING:
    from pyspark_pravega.client import Pravega
    from pyspark_pravega.client.consumers.consumer import ConsumerStatus
    from pyspark_pravega.client.stream import Stream

_HEADER = ("CONSUMER", "STREAM", "BYTES BEHIND", "POSITION")


@click.group()
def consumers() -> None:
    """Show and drop the consumers for which the server keeps events of streams.

    A streaming query with the option 'consumer' registers one, and moves it with every batch.
    """


_add_controller_option = partial(add_server_options, registry=False)


@consumers.command("list")
@click.argument("table", required=False)
@_add_controller_option
def list_command(table: str | None, settings: Mapping[str, str]) -> None:
    """List the consumers of a TABLE (pravega.iot.sensor, or iot.sensor), or of all streams.

    BYTES BEHIND counts what the server keeps: what the query has not read, and a micro-batch that Spark has not yet
    committed, which happens when the next one begins. The position of a reader group of other clients is not known
    here.
    """
    from pyspark_pravega.client.consumers.consumer import list_consumers_of_scopes
    from pyspark_pravega.sql.identifiers import is_internal

    with connect_client(settings) as pravega:
        if table is not None:
            consumers = _list_consumers(pravega, _parse_stream(table))
        else:
            scopes = [scope for scope in pravega.controller.list_scopes() if not is_internal(scope)]
            consumers = list(list_consumers_of_scopes(pravega, scopes))
    rows = [dict(zip(_HEADER, _build_row(status), strict=True)) for status in consumers]
    nothing = "There are no consumers" + (f" of {table}." if table is not None else ".")
    print_rows(rows, _HEADER, False, nothing, right=("BYTES BEHIND",))


@consumers.command("drop")
@click.argument("name")
@_add_controller_option
def drop_command(name: str, settings: Mapping[str, str]) -> None:
    """Drop the consumer NAME, as `list` shows it (scope.name); the server may then free what it kept for it."""
    from pyspark_pravega.client.consumers.consumer import drop_consumer

    with connect_client(settings) as pravega:
        scope, consumer = _take_two_parts(split_name(name), name, "consumer", "iot.nightly")
        drop_consumer(pravega, scope, consumer)
    click.echo(f"Dropped consumer {name}.")


def _list_consumers(pravega: Pravega, stream: Stream) -> list[ConsumerStatus]:
    from pyspark_pravega.client.consumers.consumer import list_consumers
    from pyspark_pravega.sql.identifiers import ask_did_you_mean, find_nearest, is_internal, quote_all

    try:
        return list_consumers(pravega, stream)
    except StreamNotFoundError as error:
        try:
            names = [name for name in pravega.controller.list_streams(stream.scope) if not is_internal(name)]
        except PravegaError:
            raise error from None
        near = find_nearest(stream.name, names)
        hint = ask_did_you_mean(None if near is None else quote_all((stream.scope, near)))
        raise StreamNotFoundError(f"{error.message.rstrip('.')}.{hint}") from error


def _build_row(status: ConsumerStatus) -> tuple[str, str, str, str]:
    from pyspark_pravega.sql.identifiers import quote_all

    behind = "unknown" if status.bytes_behind is None else f"{status.bytes_behind:,}"
    position = "kept by its readers" if status.position is None else status.position.to_text()
    stream = quote_all((status.stream.scope, status.stream.name))
    return quote_all((status.scope, status.name)), stream, behind, position


def _parse_stream(table: str) -> Stream:
    from pyspark_pravega.client.stream import Stream
    from pyspark_pravega.sql.identifiers import hyphenate

    parts = split_name(table)
    if len(parts) == 3:
        parts = parts[1:]  # the catalog's name
    scope, name = _take_two_parts(parts, table, "table", "iot.sensor")
    return Stream(hyphenate(scope), hyphenate(name))  # as in SQL


def _take_two_parts(parts: Sequence[str], name: str, kind: str, example: str) -> tuple[str, str]:
    if len(parts) != 2:
        raise InvalidNameError(
            f"'{name}' is not the name of a {kind}: write its scope and its name, for example {example}, and put a "
            "part that contains a '.' in backticks"
        )
    return parts[0], parts[1]
