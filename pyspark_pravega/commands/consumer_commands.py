"""The command `pyspark-pravega consumers`: list and drop what protects events of streams from retention."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import click

from pyspark_pravega.errors import InvalidNameError
from pyspark_pravega.sql.identifiers import quote_all, split_name

from .server_commands import add_server_options, check_table, connect_catalog, connect_client
from .show_output import print_rows

_HEADER = ("CONSUMER", "STREAM", "BYTES BEHIND", "POSITION")


@click.group()
def consumers() -> None:
    """Show and drop the consumers for which the server keeps events of streams.

    A streaming query with the option 'consumer' registers one, and moves it with every batch.
    """


_add_controller_option = partial(add_server_options, registry=False)


@consumers.command("list")
@click.argument("table", required=False, callback=check_table)
@_add_controller_option
def list_command(table: str | None, settings: Mapping[str, str]) -> None:
    """List the consumers of a TABLE (pravega.iot.sensor, or iot.sensor), or of all streams.

    BYTES BEHIND counts what the server keeps: what the query has not read, and a micro-batch that Spark has not yet
    committed, which happens when the next one begins. The position of a reader group of other clients is not known
    here.
    """
    parts = [] if table is None else split_name(table)
    if len(parts) == 3:
        table = quote_all(parts[1:])  # without the catalog, which may have any name in Spark
    with connect_catalog(settings) as catalog:
        consumers = catalog.consumers(table)
    rows = []
    for one in consumers:
        behind = "unknown" if one.bytes_behind is None else f"{one.bytes_behind:,}"
        cells = (one.consumer, one.table, behind, one.position or "kept by its readers")
        rows.append(dict(zip(_HEADER, cells, strict=True)))
    nothing = "There are no consumers" + (f" of {table}." if table is not None else ".")
    print_rows(rows, _HEADER, False, nothing, right=("BYTES BEHIND",))


@consumers.command("drop")
@click.argument("name")
@_add_controller_option
def drop_command(name: str, settings: Mapping[str, str]) -> None:
    """Drop the consumer NAME, as `list` shows it (scope.name); the server may then free what it kept for it."""
    from pyspark_pravega.client.consumers.consumer import drop_consumer

    parts = split_name(name)
    if len(parts) != 2:
        raise InvalidNameError(
            f"'{name}' is not the name of a consumer: write its scope and its name, for example iot.nightly, and put "
            "a part that contains a '.' in backticks"
        )
    with connect_client(settings) as pravega:
        drop_consumer(pravega, *parts)
    click.echo(f"Dropped consumer {name}.")
