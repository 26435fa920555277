"""Metadata tables about a table's properties and its lake, and about its stream's schemas in the registry."""

from __future__ import annotations

from itertools import count

from pyspark.sql.types import IntegerType, LongType, StringType, StructType, TimestampType

from pyspark_pravega import errors
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.consumers.consumer import count_bytes_after
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.lake.open_lake import open_lake
from pyspark_pravega.datasource.positions.points_in_time import format_time
from pyspark_pravega.datasource.tables.loading import list_unread_parts, load_table
from pyspark_pravega.datasource.tables.stored_properties import SCHEMA_KEY, read_own_properties
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.formats.core.format import find_registry_format
from pyspark_pravega.sql import options as o

from ..storage.catalogs import Catalog
from ..storage.table_properties import show_policy, show_properties, show_stream_properties
from .metadata_table import MetadataTable, Rows, column, metadata_table

VERSION_COLUMNS = (
    column("version", IntegerType(), "counts the schemas of one type from 0", nullable=False),
    column("schema_id", IntegerType(), "counts all schemas of the stream", nullable=False),
    column("type", StringType(), "of events, in the schema registry", nullable=False),
)
"""What a version of a schema is called in results."""


@metadata_table(
    *VERSION_COLUMNS,
    column("format", StringType(), "Avro, Json, Protobuf, ...", nullable=False),
    column("schema", StringType(), "its text; of Protobuf the file descriptors in base64"),
    column("compatibility", StringType(), "the group's policy, as the table property names it"),
    column("unread", StringType(), "what a JSON schema says of values that are in no column"),
    column("canonical", StringType(), "the Parsing Canonical Form of an Avro schema"),
    column("fingerprint", StringType(), "of an Avro schema: CRC-64-AVRO of this form, in hexadecimal"),
)
def schemas(pravega: Pravega, stream: Stream) -> Rows:
    if pravega.config.registry_uri is None:
        return
    # Imported only where it serves: every statement starts this module.
    from pyspark_pravega.formats.avro.fingerprint import normalize_schema

    registry = pravega.registry(stream.scope)
    try:
        compatibility, versions = registry.compatibility(stream.name), registry.versions(stream.name)
    except errors.SchemaNotFoundError:
        return  # the stream has no schema group
    policy = show_policy(compatibility)
    for version in versions:
        try:
            text = version.schema.text
        except errors.InvalidSchemaError:
            text = None  # its format is one that another program has made
        info, form = version.version, version.schema.format
        unread, normalized = (None, None) if text is None else (_find_unread(form, text), normalize_schema(form, text))
        canonical, fingerprint = (None, None) if normalized is None else (normalized.canonical, normalized.fingerprint)
        yield info.version, info.id, info.type, info.format, text, policy, unread, canonical, fingerprint


def _find_unread(registry_format: str, text: str) -> str | None:
    try:
        return "; ".join(list_unread_parts(find_registry_format(registry_format), text)) or None
    except (errors.InvalidOptionError, errors.InvalidSchemaError):
        return None  # the schema has no columns


@metadata_table(
    column("encoding_id", LongType(), "stands in the header of events", nullable=False),
    *VERSION_COLUMNS,
    column("codec", StringType(), "the registry's name of the compression", nullable=False),
)
def encodings(pravega: Pravega, stream: Stream) -> Rows:
    if pravega.config.registry_uri is None:
        return
    registry = pravega.registry(stream.scope)
    for encoding_id in count():
        try:
            encoding = registry.encoding(stream.name, encoding_id)
        except errors.SchemaNotFoundError:
            return
        info = encoding.version
        yield encoding_id, info.version, info.id, info.type, encoding.codec or "none"


@metadata_table(
    column("key", StringType(), "as CREATE TABLE takes it in TBLPROPERTIES, and the comment", nullable=False),
    column("value", StringType(), "its text", nullable=False),
)
def properties(pravega: Pravega, stream: Stream) -> Rows:
    try:
        shown = show_properties(load_table(pravega, stream))
    except errors.StreamNotFoundError:
        raise
    except errors.PravegaError:  # the schema is missing, or cannot be read
        configuration = pravega.controller.stream_configuration(stream)
        stored = {key: text for key, text in read_own_properties(configuration.tags).items() if key != SCHEMA_KEY}
        shown = stored | show_stream_properties(configuration)
    yield from sorted((key, text) for key, text in shown.items() if key != "provider")


def _read_lake(catalog: Catalog, stream: Stream) -> Rows:
    """Yield what a table's lake has, and what it lacks; nothing without a lake."""
    name = read_own_properties(catalog.pravega.controller.stream_configuration(stream).tags).get(o.LAKE.key)
    if name is None:
        return
    lake = open_lake(catalog.open_table(load_table(catalog.pravega, stream).table))
    if lake is None or lake.history is None:
        behind = count_bytes_after(catalog.pravega, catalog.pravega.controller.head(stream))
        yield name, None, None, 0, 0, 0, None, None, behind
        return
    history, now = lake.history, lake.snapshot
    in_files = history.rows, now.files, now.bytes, now.number, now.timestamp
    yield name, history.version, history.cut.to_text(), *in_files, count_bytes_after(catalog.pravega, history.cut)


lake = MetadataTable(
    "lake",
    StructType(
        [
            column("table", StringType(), "the lake's table, in the catalog of lakes", nullable=False),
            column("version", LongType(), "versions up to this one lie in files; null if none does"),
            column("stream_cut", StringType(), "what lies before it in the stream is in files"),
            column("rows", LongType(), "in files", nullable=False),
            column("files", LongType(), "of data", nullable=False),
            column("bytes", LongType(), "of these files", nullable=False),
            column("snapshot_id", LongType(), "Iceberg's number of what is read"),
            column("updated_at", TimestampType(), "when that was committed"),
            column("bytes_behind", LongType(), "in the stream, which the lake does not have yet"),
        ]
    ),
    _read_lake,
)


def describe_lake(catalog: Catalog, table: StreamTable) -> str:
    """Return in a line what a table's lake has. Raises what its catalog raises, as the statistics of the table do."""
    rows = [zip(lake.columns, row, strict=True) for row in _read_lake(catalog, table.stream)]  # none: lost meanwhile
    known = [(field.name, value) for row in rows for field, value in row if value is not None]
    return ", ".join(f"{name} {format_time(value) if name == 'updated_at' else value}" for name, value in known)
