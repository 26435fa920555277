"""The command `pyspark-pravega show`: show what a Pravega contains, without Spark and Java."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from pyspark_pravega.errors import ScopeNotFoundError
from pyspark_pravega.sql.identifiers import quote
from pyspark_pravega.values_as_text import format_bytes, list_number_columns

from .server_commands import add_server_options, check_table, connect_catalog
from .show_output import print_json, print_json_lines, print_rows, print_table

if TYPE_CHECKING:
    from pyspark_pravega.catalog import PravegaCatalog


@click.group()
def show() -> None:
    """Show tables, their columns, their first rows, and what reads them.

    No JVM is started. TABLE is written as in SQL: iot.sensor. With --json the output is JSON.
    """


def _add_options(function: Callable[..., None]) -> Callable[..., None]:
    return add_server_options(click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function))


@show.command()
@click.argument("namespace", required=False)
@_add_options
def tables(namespace: str | None, as_json: bool, settings: Mapping[str, str]) -> None:
    """List the tables of a NAMESPACE, or of all: segments, bytes, format and retention of each."""
    from pyspark_pravega.catalog.api.summary import summarize_table
    from pyspark_pravega.client.cancellation import map_side_by_side

    with connect_catalog(settings) as catalog:
        names = _list_all_tables(catalog) if namespace is None else catalog.list_tables(namespace)
        rows = map_side_by_side(lambda name: asdict(summarize_table(catalog, name)), names)
    for row in () if as_json else rows:
        row["size"] = None if row["bytes"] is None else format_bytes(row["bytes"])
        row["format"] = row["error"] or row["format"]
    columns = ("table", "segments", "size", "format", "retention")
    print_rows(rows, columns, as_json, "There are no tables.", right=("segments", "size"))


@show.command()
@click.argument("table", callback=check_table)
@_add_options
def schema(table: str, as_json: bool, settings: Mapping[str, str]) -> None:
    """Show the columns of a TABLE, with their types and comments, its properties and its schema's versions."""
    from pyspark_pravega.sql.options import FORMAT, KEY_VALUE_FORMAT

    with connect_catalog(settings) as catalog:
        loaded = catalog.load_table(table)
        columns = [
            {
                "column": field.name,
                "type": field.dataType.simpleString(),
                "nullable": field.nullable,
                "comment": (field.metadata or {}).get("comment", ""),
            }
            for field in loaded.spark_schema
        ]
        properties = [{"property": key, "value": text} for key, text in loaded.properties.items()]
        own_schema = loaded.properties.get(FORMAT.key) not in (None, KEY_VALUE_FORMAT)
        versions = [asdict(version) for version in loaded.schema_versions()] if own_schema else []
    if as_json:
        print_json({"table": loaded.name, "columns": columns, "properties": loaded.properties, "versions": versions})
        return
    print_table(columns, ("column", "type", "nullable", "comment"))
    click.echo()
    print_table(properties, ("property", "value"))
    if versions:
        click.echo()
        print_table(versions, ("version", "type", "columns"), right=("version",))


def _read_options(_context: click.Context, _parameter: click.Parameter, listed: tuple[str, ...]) -> dict[str, str]:
    for text in listed:
        if "=" not in text:
            raise click.UsageError(f"'{text}' is not an option: write KEY=VALUE, for example mode=permissive.")
    return {key: value for key, _, value in (text.partition("=") for text in listed)}


def _add_read_options(function: Callable[..., None]) -> Callable[..., None]:
    read_option = click.option(
        "-o", "--option", "options", multiple=True, metavar="KEY=VALUE", callback=_read_options, help="Read option."
    )
    column = click.option("-c", "--column", "columns", multiple=True, metavar="NAME", help="Only these; hidden too.")
    return click.argument("table", callback=check_table)(column(read_option(_add_options(function))))


@show.command()
@click.option("-n", "--rows", type=click.IntRange(1), default=10, show_default=True, help="Rows to show at most.")
@_add_read_options
def head(
    table: str,
    rows: int,
    columns: tuple[str, ...],
    options: Mapping[str, str],
    as_json: bool,
    settings: Mapping[str, str],
) -> None:
    """Show the first rows of a TABLE, reading no more than they need."""
    with connect_catalog(settings) as catalog:
        rows_read = catalog.load_table(table).scan(columns or None, limit=rows, options=options).to_arrow()
    print_rows(rows_read.to_pylist(), rows_read.schema.names, as_json, right=list_number_columns(rows_read))


@show.command()
@click.option("--from-start", is_flag=True, help="Show the rows that exist too.")
@_add_read_options
def follow(
    table: str,
    from_start: bool,
    columns: tuple[str, ...],
    options: Mapping[str, str],
    as_json: bool,
    settings: Mapping[str, str],
) -> None:
    """Show the rows that come to a TABLE, until Ctrl-C. With --json each row is a line."""
    with connect_catalog(settings) as catalog:
        begins = from_start or any(key.startswith("start") for key in options)
        start = None if begins else "latest"
        for new in catalog.load_table(table).follow(columns or None, start=start, options=options):
            rows, names = new.rows.to_pylist(), new.rows.schema.names
            if as_json:
                print_json_lines(rows)
            elif rows:
                print_table(rows, names, right=list_number_columns(new.rows))


@show.command()
@click.argument("table", callback=check_table)
@click.option(
    "-n", "--versions", type=click.IntRange(1), default=20, show_default=True, help="Commits to show at most."
)
@_add_options
def history(table: str, versions: int, as_json: bool, settings: Mapping[str, str]) -> None:
    """Show the commits of a TABLE, the newest first: version, time, operation, rows and where each ends."""
    with connect_catalog(settings) as catalog:
        rows = [asdict(commit) for commit in reversed(catalog.load_table(table).history()[-versions:])]
    nothing = f"Nothing was committed to {table} by INSERT, append or a streaming query."
    columns = ("version", "time", "operation", "rows", "position")
    print_rows(rows, columns, as_json, nothing, right=("version", "rows"))


@show.command()
@click.argument("table", callback=check_table)
@click.argument("name")
@_add_options
def metadata(table: str, name: str, as_json: bool, settings: Mapping[str, str]) -> None:
    """Show the metadata table NAME of a TABLE, even of an unreadable one: segments, schemas, tags, properties."""
    with connect_catalog(settings) as catalog:
        table_rows = catalog.inspect(table, name)
    nothing = f"There are no {name} of {table}."
    right = list_number_columns(table_rows)
    print_rows(table_rows.to_pylist(), table_rows.schema.names, as_json, nothing, right=right)


@show.command()
@click.argument("table", required=False, callback=check_table)
@_add_options
def lag(table: str | None, as_json: bool, settings: Mapping[str, str]) -> None:
    """Show how far the consumers of a TABLE, or of all, are behind its end."""
    with connect_catalog(settings) as catalog:
        rows = [asdict(consumer) for consumer in catalog.consumers(table)]
    for row in () if as_json else rows:
        row["behind"] = "unknown" if row["bytes_behind"] is None else format_bytes(row["bytes_behind"])
        row["position"] = row["position"] or "kept by its readers"
    nothing = "There are no consumers" + (f" of {table}." if table is not None else ".")
    columns = ("consumer", "table", "behind", "position")
    print_rows(rows, columns, as_json, nothing, right=("behind",))


def _list_all_tables(catalog: PravegaCatalog) -> list[str]:
    """Return the names of all tables, without those of scopes that are dropped in the meantime."""
    names: list[str] = []
    for namespace in catalog.list_namespaces():
        with suppress(ScopeNotFoundError):
            names += catalog.list_tables(quote(namespace))
    return names
