"""What CREATE TABLE declares of a stream: columns, constraints, defaults and settings, checked before it is made."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from pyspark.sql.types import StructField, StructType

from pyspark_pravega import errors
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.changes.inferred_columns import find_newest_id, infer_columns
from pyspark_pravega.datasource.kinds.opening import find_kind_with_format
from pyspark_pravega.datasource.tables.bad_events import BadEventRule, read_bad_event_rule
from pyspark_pravega.datasource.tables.hidden_columns import HIDDEN_COLUMNS
from pyspark_pravega.datasource.tables.loading import LoadedTable, load_table
from pyspark_pravega.datasource.tables.named_columns import iterate_names, spell_columns
from pyspark_pravega.datasource.tables.stream_table import FIXED_COLUMNS
from pyspark_pravega.datasource.tables.table_settings import TableSettings, check_unused, read_table_settings
from pyspark_pravega.datasource.tables.writer_schemas import WriterSchemas
from pyspark_pravega.errors import shorten
from pyspark_pravega.formats.avro.format import ANY_NAME
from pyspark_pravega.formats.changes.debezium.avro import read_envelope_columns
from pyspark_pravega.formats.changes.feed import is_change_format
from pyspark_pravega.formats.core.defaults import CURRENT_DEFAULT, add_default
from pyspark_pravega.formats.core.edited_columns import find_editable_format
from pyspark_pravega.formats.core.format import Format, Layout, find_format, list_format_names
from pyspark_pravega.formats.core.framing import CONFLUENT
from pyspark_pravega.sql import options as o

from ..protocol import Constraint, CreateTable
from ..storage.catalogs import Catalog
from ..storage.spelling import Address
from ..tables.stream_tables import has_envelopes


@dataclass(frozen=True)
class Declaration:
    """A table of a stream, as CREATE TABLE declares it."""

    stream: Stream
    settings: TableSettings
    options: o.Options
    comment: str | None
    adopt: bool
    """A stream that exists without a schema may become the table."""
    schema_text: str
    """The schema of the events; empty without columns."""
    format: Format
    """The format of the events."""
    registry_format: str
    """The registry's name of the format; empty for formats whose schemas are not there."""
    bad_events: BadEventRule


def declare(catalog: Catalog, address: Address, request: CreateTable) -> Declaration:
    """Check what a statement declares.

    Raises InvalidNameError, InvalidOptionError, UnsupportedOperationError, UnsupportedTypeError naming the column.
    """
    stream, properties, columns = address.stream, request.properties, request.schema
    options = catalog.options(properties=properties)
    if options.is_set(o.AUTO_CDC_KEYS):
        properties = _complete_auto_cdc(address, properties, options)
        options = catalog.options(properties=properties)
    if request.constraints:
        properties = add_primary_key(address.shown, properties, options.get(o.FORMAT), request.constraints)
        options = catalog.options(properties=properties)
    if (format := options.get(o.FORMAT)) not in list_format_names():
        names = ", ".join(sorted((*list_format_names(), o.KEY_VALUE_FORMAT)))
        raise errors.InvalidOptionError(f"'{format}' of 'format' is unknown; expected one of {names}.")
    settings = read_table_settings(options)
    check_unused(settings.framing, options)
    writer, text, is_confluent = find_format(settings.format), "", settings.framing == CONFLUENT
    has_schemas = is_confluent or find_kind_with_format(settings.format).columns_in_events
    if has_schemas and not columns.fields and request.adopt:
        text, columns = read_event_columns(catalog, stream, settings)
    settings = _check_columns(columns, settings)
    columns = add_defaults(address.shown, columns, request.defaults, settings.format)
    bad_events = read_bad_event_rule(options, stream)
    comment = properties.get("comment")
    if columns.fields and not text:
        layout = Layout(columns, settings=settings.format_settings)
        text = writer.schema_text(layout, ANY_NAME if is_confluent else stream.name, stream.scope, comment)
    registry_format = "" if is_confluent else writer.registry_format or ""  # what is read only is kept with the stream
    return Declaration(stream, settings, options, comment, request.adopt, text, writer, registry_format, bad_events)


def _complete_auto_cdc(address: Address, properties: Mapping[str, str], options: o.Options) -> Mapping[str, str]:
    """Return the properties of a table that AUTO CDC makes beside its target: a table of changes with the same key.

    Raises UnsupportedOperationError for a flow that keeps the history of rows, which have no key then.
    """
    keys = json.loads(options.get(o.AUTO_CDC_KEYS) or "null")
    if not isinstance(keys, list):
        return properties
    if (type := options.get(o.AUTO_CDC_TYPE)) not in (None, "SCD1"):
        raise errors.UnsupportedOperationError(
            f"AUTO CDC STORED AS {type} is not possible with {address.shown}: a table of changes has one row for each "
            "key. Write STORED AS SCD TYPE 1, and read former rows with CHANGES or VERSION AS OF."
        )
    completed = dict(properties)
    if not options.is_set(o.FORMAT):
        completed[o.FORMAT.key] = "debezium-json"
    if not options.is_set(o.PRIMARY_KEY):
        completed[o.PRIMARY_KEY.key] = ",".join(map(str, keys))
    return completed


def _check_columns(schema: StructType, settings: TableSettings) -> TableSettings:
    """Check the columns; return the settings with the routing key spelled as its column."""
    names = schema.fieldNames()
    fixed = FIXED_COLUMNS.get(settings.format)
    if fixed is not None:
        if names and [(field.name, field.dataType) for field in schema] != [
            (field.name, field.dataType) for field in fixed
        ]:
            declared = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema)
            column = f"{fixed[0].name} {fixed[0].dataType.simpleString().upper()}"
            raise errors.UnsupportedTypeError(
                f"It declares the columns {declared}, but a table of 'format'='{settings.format}' has only the column "
                f"`{column}`. Declare no columns, or choose 'format'='avro' or 'json'."
            )
    elif not names:
        raise errors.UnsupportedTypeError("It has no columns. Declare them, or set 'format'='raw'.")
    for name in iterate_names(schema):
        if "\0" in name:
            raise errors.InvalidNameError(
                f"The column name {name!a} contains U+0000, which no format can store. Leave it out."
            )
    for name in names:
        if not name:
            raise errors.InvalidNameError("A column has an empty name. Give it one.")
        if name.lower() in HIDDEN_COLUMNS:
            raise errors.InvalidNameError(
                f"The column name {name} belongs to a hidden column that every table has. Give it another name."
            )
    settings = find_kind_with_format(settings.format).check_settings(schema, settings)
    return spell_columns(settings, fixed or schema)


def add_primary_key(
    table: str, properties: Mapping[str, str], format: str, constraints: Sequence[Constraint]
) -> dict[str, str]:
    """Return a table's properties with the primary key of its constraints.

    Raises UnsupportedOperationError for a constraint that no stream keeps, InvalidOptionError for two primary keys.
    """
    merged = dict(properties)
    for constraint in constraints:
        if constraint.kind != "PrimaryKey" or constraint.enforced:
            raise errors.UnsupportedOperationError(
                f"{constraint.text} is not possible on {table}: nothing checks the events that are written to a "
                "stream. Leave it out."
            )
        if not find_kind_with_format(format).rows_have_keys:
            raise errors.UnsupportedOperationError(
                f"{constraint.text} is not possible on {table} with 'format'='{format}': every event is a row of its "
                "own. A primary key identifies the rows of a table of changes, such as one of "
                "'format'='debezium-json'. Leave it out."
            )
        key = ",".join(constraint.columns)
        declared = merged.setdefault(o.PRIMARY_KEY.key, key)
        if tuple(name.strip() for name in declared.split(",")) != constraint.columns:
            raise errors.InvalidOptionError(
                f"'{o.PRIMARY_KEY.key}'='{shorten(declared)}' and {constraint.text} are two primary keys. Leave one "
                "of them out."
            )
    return merged


_TEXTS = re.compile(r"""\br'[^']*'|\br"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.IGNORECASE | re.DOTALL)
"""Literals. A name inside one is not a function."""

_OF_THE_MOMENT = re.compile(r"\b(current_\w+|curdate|now|localtimestamp|session_user|user)\b", re.IGNORECASE)
"""Functions whose value changes from statement to statement, which a schema that others read cannot express."""


def add_defaults(table: str, columns: StructType, defaults: Mapping[str, str], format: str) -> StructType:
    """Return the columns of a new table with what their defaults are now.

    Raises UnsupportedOperationError for a format whose schemas say no defaults.
    """
    return StructType([_complete_column(table, field, defaults.get(field.name), format) for field in columns])


def _complete_column(table: str, field: StructField, initial: str | None, format: str) -> StructField:
    sql = (field.metadata or {}).get(CURRENT_DEFAULT)
    if sql is None:
        return field
    if find_editable_format(format) is None:
        raise errors.UnsupportedOperationError(
            f"DEFAULT {shorten(sql)} of column {field.name} is not possible on {table} with 'format'='{format}': "
            "its schema cannot hold defaults. Leave DEFAULT out, or choose 'format'='avro' or 'json'."
        )
    return add_default(field, sql, None if _OF_THE_MOMENT.search(_TEXTS.sub(" ", sql)) else initial)


def find_table(catalog: Catalog, stream: Stream) -> LoadedTable | None:
    """Load a stream as a table; return None if there is no such stream."""
    try:
        return load_table(catalog.pravega, stream)
    except errors.StreamNotFoundError:
        return None


def read_event_columns(catalog: Catalog, stream: Stream, settings: TableSettings) -> tuple[str, StructType]:
    """Return the columns that the events' schemas define, and the text to keep as the table's schema, if there is one.

    Raises UnsupportedTypeError if they define none.
    """
    text, columns = "", None
    table = find_table(catalog, stream)
    if table is not None and settings.framing == CONFLUENT:
        if (id := find_newest_id(catalog.pravega, stream)) is not None:
            with closing(WriterSchemas(catalog.pravega.config, stream, CONFLUENT)) as schemas:
                text = schemas(id).schema_text
            if is_change_format(settings.format):
                text, columns = "", read_envelope_columns(text)
            else:
                columns = find_format(settings.format).spark_schema(text)
    elif table is not None and has_envelopes(table):
        columns = read_envelope_columns(table.table.schema_text or "")
    elif table is not None:
        columns = infer_columns(catalog.pravega, stream, settings.format, settings.format_settings)
    if columns is None:
        raise errors.UnsupportedTypeError(
            "It declares no columns, and no event of its stream has a schema that describes them. Declare them, or "
            "infer them from the values of events with the table property 'infer-columns'='sample' (JSON only)."
        )
    return text, columns
