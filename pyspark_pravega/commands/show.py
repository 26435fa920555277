"""The command `pyspark-pravega show`: show what a Pravega contains, without Spark and Java."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pyspark_pravega.errors import ScopeNotFoundError

from .command_failures import show_errors
from .server_options import add_server_options

if TYPE_CHECKING:
    from pyspark_pravega.catalog import PravegaCatalog

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
def show() -> None:
    """Show tables, their columns, their first rows, and what reads them.

    No JVM is started. TABLE is written as in SQL: iot.sensor. With --json the output is JSON.
    """


def _add_options(function: F) -> F:
    return add_server_options(click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function))


def _check_table(ctx: click.Context, _param: click.Parameter, table: str | None) -> str | None:
    from pyspark_pravega.sql.identifiers import split_name

    with show_errors():
        if table is not None and len(split_name(table)) < 2:
            raise click.UsageError(
                f"'{table}' has no namespace. Write {ctx.command_path} <namespace>.{table}; `pyspark-pravega show "
                "tables` lists the tables of all namespaces."
            )
    return table


@show.command()
@click.argument("namespace", required=False)
@_add_options
def tables(namespace: str | None, as_json: bool, controller_uri: str | None, schema_registry_uri: str | None) -> None:
    """List the tables of a NAMESPACE, or of all: segments, bytes, format and retention of each."""
    from pyspark_pravega.catalog.api.summary import summarize_tables
    from pyspark_pravega.commands.show_output import print_json, print_table
    from pyspark_pravega.values_as_text import format_bytes

    with _connect(controller_uri, schema_registry_uri) as catalog:
        names = _list_all_tables(catalog) if namespace is None else catalog.list_tables(namespace)
        rows = [asdict(summary) for summary in summarize_tables(catalog, names)]
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo("There are no tables.")
    else:
        for row in rows:
            row["size"] = None if row["bytes"] is None else format_bytes(row["bytes"])
            row["format"] = row["error"] or row["format"]
        print_table(rows, ("table", "segments", "size", "format", "retention"), right=("segments", "size"))


@show.command()
@click.argument("table", callback=_check_table)
@_add_options
def schema(table: str, as_json: bool, controller_uri: str | None, schema_registry_uri: str | None) -> None:
    """Show the columns of a TABLE, with their types and comments, its properties and its schema's versions."""
    from pyspark_pravega.commands.show_output import print_json, print_table
    from pyspark_pravega.sql.options import FORMAT
    from pyspark_pravega.sql.options.change_options import KEY_VALUE_FORMAT

    with _connect(controller_uri, schema_registry_uri) as catalog:
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


@show.command()
@click.argument("table", callback=_check_table)
@click.option("-n", "--rows", type=click.IntRange(1), default=10, show_default=True, help="Rows to show at most.")
@click.option("-c", "--column", "columns", multiple=True, metavar="NAME", help="Only these columns; hidden ones too.")
@click.option("-o", "--option", "options", multiple=True, metavar="KEY=VALUE", help="Read option: mode=permissive.")
@_add_options
def head(  # noqa: PLR0913  (as many as the command has)
    table: str,
    rows: int,
    columns: tuple[str, ...],
    options: tuple[str, ...],
    as_json: bool,
    controller_uri: str | None,
    schema_registry_uri: str | None,
) -> None:
    """Show the first rows of a TABLE, reading no more than they need."""
    from pyspark_pravega.commands.show_output import print_json, print_table

    texts = {}
    for text in options:
        key, sign, value = text.partition("=")
        if not sign:
            raise click.UsageError(f"'{text}' is not an option: write KEY=VALUE, for example mode=permissive.")
        texts[key] = value
    with _connect(controller_uri, schema_registry_uri) as catalog:
        rows_read = catalog.load_table(table).scan(columns or None, limit=rows, options=texts).to_arrow()
    if as_json:
        print_json(rows_read.to_pylist())
        return
    print_table(rows_read.to_pylist(), rows_read.schema.names, right=_list_number_columns(rows_read))


@show.command()
@click.argument("table", callback=_check_table)
@click.option(
    "-n", "--versions", type=click.IntRange(1), default=20, show_default=True, help="Commits to show at most."
)
@_add_options
def history(
    table: str, versions: int, as_json: bool, controller_uri: str | None, schema_registry_uri: str | None
) -> None:
    """Show the commits of a TABLE, the newest first: version, time, operation, rows and where each ends."""
    from pyspark_pravega.commands.show_output import print_json, print_table

    with _connect(controller_uri, schema_registry_uri) as catalog:
        rows = [asdict(commit) for commit in reversed(catalog.load_table(table).history()[-versions:])]
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo(f"Nothing was committed to {table} by INSERT, append or a streaming query.")
    else:
        print_table(rows, ("version", "time", "operation", "rows", "position"), right=("version", "rows"))


@show.command()
@click.argument("table", callback=_check_table)
@click.argument("name")
@_add_options
def metadata(table: str, name: str, as_json: bool, controller_uri: str | None, schema_registry_uri: str | None) -> None:
    """Show the metadata table NAME of a TABLE, even of an unreadable one: segments, schemas, tags, properties."""
    from pyspark_pravega.commands.show_output import print_json, print_table

    with _connect(controller_uri, schema_registry_uri) as catalog:
        table_rows = catalog.inspect(table, name)
    rows = table_rows.to_pylist()
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo(f"There are no {name} of {table}.")
    else:
        print_table(rows, table_rows.schema.names, right=_list_number_columns(table_rows))


@show.command()
@click.argument("table", required=False, callback=_check_table)
@_add_options
def lag(table: str | None, as_json: bool, controller_uri: str | None, schema_registry_uri: str | None) -> None:
    """Show how far the consumers of a TABLE, or of all, are behind its end."""
    from pyspark_pravega.commands.show_output import print_json, print_table
    from pyspark_pravega.values_as_text import format_bytes

    with _connect(controller_uri, schema_registry_uri) as catalog:
        rows = [asdict(consumer) for consumer in catalog.consumers(table)]
    if as_json:
        print_json(rows)
    elif not rows:
        click.echo("There are no consumers" + (f" of {table}." if table is not None else "."))
    else:
        for row in rows:
            row["behind"] = "unknown" if row["bytes_behind"] is None else format_bytes(row["bytes_behind"])
            row["position"] = row["position"] or "kept by its readers"
        print_table(rows, ("consumer", "table", "behind", "position"), right=("behind",))


@contextmanager
def _connect(controller_uri: str | None, schema_registry_uri: str | None) -> Iterator[PravegaCatalog]:
    from pyspark_pravega.catalog import connect

    with (
        show_errors(),
        connect(controller_uri=controller_uri, schema_registry_uri=schema_registry_uri) as catalog,
    ):
        yield catalog


def _list_all_tables(catalog: PravegaCatalog) -> list[str]:
    """Return the names of all tables, without those of scopes that are dropped in the meantime."""
    from pyspark_pravega.sql.identifiers import quote

    names: list[str] = []
    for namespace in catalog.list_namespaces():
        with suppress(ScopeNotFoundError):
            names += catalog.list_tables(quote(namespace))
    return names


def _list_number_columns(table: Any) -> list[str]:
    """Return the names of the numeric columns of an Arrow table."""
    from pyarrow import types

    kinds = (types.is_integer, types.is_floating, types.is_decimal)
    return [field.name for field in table.schema if any(is_kind(field.type) for is_kind in kinds)]
