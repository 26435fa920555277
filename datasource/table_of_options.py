"""Finds the table that the options of `spark.read.format("pravega")` and of `df.write.format("pravega")` name."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.cancellation import map_side_by_side
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import InvalidOptionError, StreamNotFoundError
from pyspark_pravega.formats.core.format import Layout, can_share_stream, find_format
from pyspark_pravega.sql import options as o

from .kinds.opening import find_table_kind, load
from .tables.hidden_columns import HIDDEN_COLUMNS
from .tables.merged_table import STREAM_COLUMN, Member, MemberChoice, add_stream_column, merge_tables
from .tables.stored_properties import find_promised_key, read_own_properties
from .tables.stream_table import FIXED_COLUMNS, StreamTable, TableName, find_kind_of_format
from .tables.table_settings import read_table_settings


def load_table_of_options(
    pravega: Pravega, options: o.Options, schema: StructType | None, *, writing: bool = False
) -> StreamTable:
    """Return the table of the options: as stored, unless format or framing are given.

    The stream may be `name$type`, for its events of one type, or `name$changelog`. Several streams make one table, see
    `merge_tables`. Raises StreamNotFoundError for a missing stream, DifferentSchemasError for streams that do not fit
    each other, and InvalidOptionError where events of the given format are to be written among others.
    """
    several = [option for option in (o.STREAM, o.STREAMS, o.PATTERN_OF_STREAMS) if options.is_set(option)]
    if len(several) > 1:
        raise InvalidOptionError(
            f"'{options.name(several[0])}' and '{options.name(several[1])}' cannot be given together: both say what to "
            "read. Leave one out."
        )
    if not several or several == [o.STREAM]:
        name = TableName.parse(options.require(o.STREAM))
        stream = Stream(options.require(o.SCOPE), name.stream)
        if writing:
            _check_written_format(pravega, options, stream)
        return _load_named_table(pravega, options, Member(stream, name.part), schema)
    scope, text = options.require(o.SCOPE), str(options.text(several[0])).strip()
    names = MemberChoice.of(options, scope).find(pravega)
    if not names:
        raise StreamNotFoundError(describe_no_match(scope, text))
    return add_stream_column(merge_tables(Stream(scope, text), load_members(pravega, options, scope, names, schema)))


def describe_no_match(scope: str, pattern: str) -> str:
    """Return the sentence for a pattern that no stream's name matches."""
    return (
        f"No stream of scope '{scope}' has a name that matches 'pattern'='{pattern}'. A pattern matches whole names, "
        "with - where SQL writes _: 'sensor-.*' those that begin with 'sensor-'."
    )


def load_members(
    pravega: Pravega, options: o.Options, scope: str, names: Sequence[str], schema: StructType | None = None
) -> list[StreamTable]:
    """Return the tables of the streams to read as one, by their names in a scope.

    Raises UnsupportedOperationError for tables whose rows change.
    """
    if schema is not None:
        schema = StructType([field for field in schema if field.name != STREAM_COLUMN.name])

    def load_member(name: str) -> StreamTable:
        member = _load_named_table(pravega, options, Member.parse(name, scope), schema)
        find_table_kind(member).check_supports("Reading as one of several streams", f"stream {member.stream}", member)
        return member

    return map_side_by_side(load_member, names)


def _check_written_format(pravega: Pravega, options: o.Options, stream: Stream) -> None:
    """Raise InvalidOptionError for text into a table of a binary format, and the other way round.

    Text of one kind may be meant for a table of another, such as JSON that another program has made. Bytes (`raw`) are
    written as they are, and so is all with a `framing` that is given.
    """
    format = options.get(o.FORMAT)
    if not options.is_set(o.FORMAT) or options.is_set(o.FRAMING):
        return
    declared = read_own_properties(pravega.controller.stream_configuration(stream).tags).get(o.FORMAT.key, format)
    if not can_share_stream(declared, format):
        raise InvalidOptionError(
            f"'{o.FORMAT.key}'='{format}' is given, but stream {stream} is a table of '{o.FORMAT.key}'='{declared}', "
            f"and each SELECT on it would fail at such an event. Leave '{o.FORMAT.key}' out, to write '{declared}'; or "
            f"add '{o.FRAMING.key}'='none', if other programs than that table read these events."
        )


def _load_named_table(pravega: Pravega, options: o.Options, name: Member, schema: StructType | None) -> StreamTable:
    """Return the table with a name; the options' own stream does not matter."""
    stream, version = name.stream, options.get(o.SCHEMA_VERSION)
    if not (options.is_set(o.FORMAT) or options.is_set(o.FRAMING)):
        return load(pravega, stream, name.part, schema_version=version).table
    settings = read_table_settings(options)
    configuration = pravega.controller.stream_configuration(stream)  # StreamNotFoundError, whatever the options say
    promised = find_promised_key(read_own_properties(configuration.tags))
    if promised is not None and settings.routing_key is not None:
        raise InvalidOptionError(
            f"Stream {stream} promises by '{o.ROUTING_KEY_OF_ALL.key}' that all its events have the routing key "
            f"'{promised}', one of its own columns. Leave out 'format' and 'framing': the table has its own."
        )
    if settings.framing == "registry":
        return load(pravega, stream, name.part, schema_version=version).table
    schema = FIXED_COLUMNS.get(settings.format, schema)
    if schema is None:
        raise InvalidOptionError(
            f"Stream {stream} is read with 'format'='{settings.format}' and 'framing'='{settings.framing}', so the "
            "columns of its events are unknown. Give them with .schema('a INT, b STRING')."
        )
    format = find_format(settings.format)
    schema = StructType([field for field in schema if field.name not in HIDDEN_COLUMNS])
    return StreamTable(
        stream,
        settings.format,
        settings.framing,
        schema,
        None
        if format.registry_format is not None
        else format.schema_text(Layout(schema), stream.name, stream.scope) or None,
        routing_key=settings.routing_key,
        promised_key=promised,
        kind=find_kind_of_format(settings.format),
        settings=settings.format_settings,
    )
