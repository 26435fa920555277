"""Tables that the options of `format("pravega")` name, in reads and writes through the adapter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql.types import StructType

from pyspark_pravega.datasource.kinds.dispatch import kind_of
from pyspark_pravega.datasource.scan.event_planning import full_schema
from pyspark_pravega.datasource.table_of_options import table_of_options
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InvalidOptionError, StreamNotFoundError, UnsupportedOperationError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.options import OPTIONS
from pyspark_pravega.sql.refusals import refusal_in_session_catalog

from . import several
from .change_options import change_range, read_options
from .changes import described_changes
from .connections import BY_OPTIONS, Catalog
from .replies import SourceDescription, TableDescription
from .requests import LoadSource
from .tables import hidden_columns, identity


def conf_of(conf: Mapping[str, str], request: LoadSource) -> dict[str, str]:
    """Return how to connect, as the conf of a catalog: what the options say of it, else `conf`, the session's.

    Never both, so that no query can send a catalog's credentials to servers of its own choice. Raises
    InvalidOptionError for options that are wrong, or are given together with a catalog.
    """
    if "owner" in request.options:  # only CREATE TABLE adds it; the table's later options would be lost
        table = request.options.get(o.STREAM.key, "<table>")
        raise UnsupportedOperationError(refusal_in_session_catalog(table, request.catalogs))
    resolved = _resolve(request, {})
    given = {
        option.key: text
        for option in OPTIONS.values()
        if option.connection and resolved.source(option) is o.Source.QUERY and (text := resolved.text(option))
    }
    catalog = resolved.get(o.CATALOG)
    if catalog is not None:
        _check_catalog(catalog, request, given)
    elif given:
        conf = {}
    for key, text in given.items():
        if OPTIONS[key].secret and text.strip().startswith("${"):
            raise InvalidOptionError(
                f"'{key}' refers to an environment variable, which only the conf of a catalog can. Set it there, and "
                f"name the catalog with '{o.CATALOG.key}'."
            )
    return {**conf, **given, BY_OPTIONS: "true"}


def _check_catalog(catalog: str, request: LoadSource, given: Mapping[str, str]) -> None:
    if catalog not in request.catalogs:
        there = ", ".join(request.catalogs)
        known = f"Those of this session are {there}." if there else "This session has none; see configure()."
        raise InvalidOptionError(f"'{o.CATALOG.key}'='{catalog}' is no catalog of Pravega. {known}")
    for key in given:
        raise InvalidOptionError(
            f"'{key}' cannot be given together with '{o.CATALOG.key}'='{catalog}', whose conf settles it. Leave one of "
            "them out."
        )


def load(catalog: Catalog, conf: Mapping[str, str], request: LoadSource) -> SourceDescription:
    """Describe the table of the options; raises the errors of `table_of_options`.

    Readers get the columns that tell where an event lies as ordinary ones, and the others as hidden ones.
    """
    options = _resolve(request, catalog.conf)
    try:
        table = table_of_options(catalog.pravega, options, request.schema)
    except StreamNotFoundError as error:
        if not request.writing:
            raise
        raise StreamNotFoundError(
            f"{error.message}. Create it first, with CREATE TABLE. Of the writers only df.writeTo(...).create(), "
            "df.write.saveAsTable and writeStream.toTable create a table that is missing, by its name in a catalog."
        ) from None
    if options.get(o.CHANGES):
        return _changes(catalog, conf, request, table)
    columns = request.schema or full_schema(table, _resolve(request, catalog.conf, table.scan_properties))
    return _described(catalog, conf, table, columns)


def _described(catalog: Catalog, conf: Mapping[str, str], table: StreamTable, columns: StructType) -> SourceDescription:
    kind = kind_of(table)
    name = kind.name(table)
    described = TableDescription(
        name=catalog.named(table.stream.scope, name),
        schema=columns,
        properties={},
        metadata_columns=hidden_columns(table, columns),
        table=table,
        id=several.identities(catalog, table) if table.members else identity(catalog, table.stream),
        events_are_rows=kind.events_are_rows,
        row_key=tuple(kind.row_key(table)),
    )
    return SourceDescription(conf, (table.stream.scope, name), described)


def _changes(catalog: Catalog, conf: Mapping[str, str], request: LoadSource, table: StreamTable) -> SourceDescription:
    if table.members:
        raise UnsupportedOperationError(
            f"'{o.CHANGES.key}' is not possible for several streams. Name one of them in '{o.STREAM.key}'."
        )
    source = _described(catalog, conf, table, table.schema)
    options = _resolve(request, catalog.conf, table.scan_properties)
    changes = described_changes(source.table, change_range(request.options), options)
    if request.schema not in (None, changes.schema):
        raise InvalidOptionError(f"'{o.CHANGES.key}' has columns of its own. Leave .schema(...) out.")
    return replace(source, table=changes)


def _resolve(request: LoadSource, conf: Mapping[str, str], properties: Mapping[str, str] | None = None) -> o.Options:
    if request.writing:
        return o.resolve(conf=conf, properties=properties, write=request.options)
    return o.resolve(conf=conf, properties=properties, read=read_options(request.options))
