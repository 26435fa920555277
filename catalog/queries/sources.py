"""Finds the tables, and the ranges of changes, that the options of `format("pravega")` name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from pyspark.sql.types import StructType

from pyspark_pravega.datasource.kinds.opening import find_table_kind
from pyspark_pravega.datasource.positions.identity import identify
from pyspark_pravega.datasource.scan.event_planning import make_full_schema
from pyspark_pravega.datasource.table_of_options import load_table_of_options
from pyspark_pravega.datasource.tables.change_range import TIMESTAMP, VERSION, ChangeRange
from pyspark_pravega.datasource.tables.open_table import CHANGES_OPTIONS, drop_changes_options, resolve_read
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InvalidOptionError, StreamNotFoundError, UnsupportedOperationError, shorten
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.option_types import BOOLEAN, OptionType
from pyspark_pravega.sql.option_types import TIMESTAMP as MOMENT
from pyspark_pravega.sql.options import OPTIONS
from pyspark_pravega.sql.refusals import describe_session_catalog_refusal

from ..protocol import LoadSource
from ..protocol.service_replies import SourceDescription
from ..storage.catalogs import BY_OPTIONS, OF_STATEMENT, Catalog
from ..tables.description import describe_table, identify_members
from .scan_planning import describe_changes

T = TypeVar("T")


def select_read_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options of a read that are for this package; without the bounds of changes if changes are read.

    Raises InvalidOptionError for a key that is almost such a bound, and for a bound if no changes are read.
    """
    texts = (text for key, text in options.items() if o.find_option(key) is o.CHANGES)
    if any(text.strip().lower() == "true" for text in texts):
        return drop_changes_options(options)
    for key in options:
        if key.lower() in CHANGES_OPTIONS:
            raise InvalidOptionError(
                f"'{key}' applies only to reads of changes. Add 'changes'='true', or leave it out."
            )
    return options


def read_change_range(options: Mapping[str, str]) -> ChangeRange:
    """Read the bounds that Spark itself reads for `spark.read.changes`; without bounds the range has all changes.

    Raises InvalidOptionError for a wrong value and for bounds of two kinds, UnsupportedOperationError for net changes,
    which Spark computes only for a table in a catalog.
    """
    settings = {
        CHANGES_OPTIONS[key.lower()]: text.strip() for key, text in options.items() if key.lower() in CHANGES_OPTIONS
    }
    mode = settings.get("deduplicationMode", "none")
    if mode.lower() == "netchanges":
        raise UnsupportedOperationError(
            "'deduplicationMode'='netChanges' cannot be used with options: Spark computes net changes only for a "
            "table in a catalog, from Spark 4.2 on. Use spark.read.changes('<catalog>.<namespace>.<table>')."
        )
    if mode.lower() not in ("none", "dropcarryovers"):
        raise InvalidOptionError(f"'deduplicationMode'='{shorten(mode)}': expected none or dropCarryovers.")
    _parse_value("computeUpdates", settings, BOOLEAN)
    if len({key.removeprefix("starting").removeprefix("ending") for key in settings} & {"Version", "Timestamp"}) > 1:
        raise InvalidOptionError("The bounds of changes are either versions or timestamps. Give both in the same way.")
    inclusive = (_parse_value(f"{bound}BoundInclusive", settings, BOOLEAN) for bound in ("starting", "ending"))
    start_inclusive, end_inclusive = (True if value is None else value for value in inclusive)
    times = [_parse_value(f"{bound}Timestamp", settings, MOMENT) for bound in ("starting", "ending")]
    if any(times):
        start, end = (None if time is None else str(round(time.timestamp() * 1_000_000)) for time in times)
        return ChangeRange(TIMESTAMP, start, end, start_inclusive, end_inclusive)
    versions = settings.get("startingVersion"), settings.get("endingVersion")
    return ChangeRange(VERSION, *versions, start_inclusive, end_inclusive)


def _parse_value(key: str, settings: Mapping[str, str], type: OptionType[T]) -> T | None:
    text = settings.get(key)
    if text is None:
        return None
    try:
        return type.parse(text)
    except ValueError as error:
        raise InvalidOptionError(f"'{key}'='{shorten(text)}': {error}.") from None


def resolve_conf(conf: Mapping[str, str], request: LoadSource) -> dict[str, str]:
    """Return how to connect, as the conf of a catalog: from the options if they say so, else `conf`, the session's.

    The two are never mixed, nor are addresses of options with a login of the environment, so no query can send the
    driver's credentials to other servers. Raises InvalidOptionError for options that are wrong, or are given together
    with a catalog.
    """
    if "owner" in request.options:  # only CREATE TABLE adds it; options given to the table later would be lost
        table = request.options.get(o.STREAM.key, "<table>")
        raise UnsupportedOperationError(describe_session_catalog_refusal(table, request.catalogs))
    resolved = _resolve(request, {})
    settings = {
        option.key: text
        for option in OPTIONS.values()
        if option.connection and resolved.source(option) is o.Source.QUERY and (text := resolved.text(option))
    }
    catalog = resolved.get(o.CATALOG)
    if catalog is not None:
        _check_catalog(catalog, request, settings)
    elif any(OPTIONS[key] in (*o.ADDRESSES, *o.LOGIN, *o.TRUST) for key in settings):
        conf = {}
    for key, text in settings.items():
        if OPTIONS[key].secret and text.strip().startswith("${"):
            raise InvalidOptionError(
                f"'{key}' refers to an environment variable, which only the conf of a catalog can do. Set it there, "
                f"and name the catalog with '{o.CATALOG.key}'."
            )
    of_statement = {OF_STATEMENT: "true"} if settings and not conf else {}
    return {**conf, **settings, BY_OPTIONS: "true", **of_statement}


def _check_catalog(catalog: str, request: LoadSource, settings: Mapping[str, str]) -> None:
    if catalog not in request.catalogs:
        names = ", ".join(request.catalogs)
        advice = f"The catalogs of this session are {names}." if names else "This session has none; see configure()."
        raise InvalidOptionError(f"'{o.CATALOG.key}'='{catalog}' is not a Pravega catalog. {advice}")
    for key in settings:
        raise InvalidOptionError(
            f"'{key}' cannot be given together with '{o.CATALOG.key}'='{catalog}', whose conf already sets it. Leave "
            "one of them out."
        )


def load(catalog: Catalog, conf: Mapping[str, str], request: LoadSource) -> SourceDescription:
    """Describe the table of the options. Raises the errors of `load_table_of_options`.

    Readers get the place of an event in ordinary columns, and other hidden columns as hidden ones.
    """
    options = _resolve(request, catalog.conf)
    try:
        table = load_table_of_options(catalog.pravega, options, request.schema, writing=request.writing)
    except StreamNotFoundError as error:
        if not request.writing:
            raise
        raise StreamNotFoundError(
            f"{error.message}. Create it first with CREATE TABLE. Only df.writeTo(...).create(), df.write.saveAsTable "
            "and writeStream.toTable create a missing table, by its name in a catalog."
        ) from None
    if options.get(o.CHANGES):
        return _describe_changes(catalog, conf, request, table)
    columns = request.schema or make_full_schema(table, _resolve_with_table(catalog, request, table))
    return _describe(catalog, conf, table, columns)


def _describe(catalog: Catalog, conf: Mapping[str, str], table: StreamTable, columns: StructType) -> SourceDescription:
    name = find_table_kind(table).name_of(table)
    id = None
    if table.members:
        table = identify_members(catalog, table)
    else:
        id = identify(catalog.pravega, table.stream)
    return SourceDescription(conf, (table.stream.scope, name), describe_table(catalog, table, id, columns=columns))


def _describe_changes(
    catalog: Catalog, conf: Mapping[str, str], request: LoadSource, table: StreamTable
) -> SourceDescription:
    if table.members:
        raise UnsupportedOperationError(
            f"'{o.CHANGES.key}' cannot be used with several streams. Name one of them in '{o.STREAM.key}'."
        )
    source = _describe(catalog, conf, table, table.schema)
    options = _resolve_with_table(catalog, request, table)
    changes = describe_changes(source.table, read_change_range(request.options), options)
    if request.schema not in (None, changes.schema):
        raise InvalidOptionError(f"'{o.CHANGES.key}' defines the columns itself. Leave .schema(...) out.")
    return replace(source, table=changes)


def _resolve(request: LoadSource, conf: Mapping[str, str]) -> o.Options:
    """Return the options before their table is known: they name it."""
    if request.writing:
        return o.resolve(conf=conf, write=request.options)
    return o.resolve(conf=conf, read=select_read_options(request.options))


def _resolve_with_table(catalog: Catalog, request: LoadSource, table: StreamTable) -> o.Options:
    if request.writing:
        return catalog.options(write=request.options, properties=table.scan_properties)
    return resolve_read(catalog.options, table, select_read_options(request.options))
