"""Metadata tables about a table's properties, and about its stream's schemas in the registry."""

from __future__ import annotations

from itertools import count

from pyspark.sql.types import IntegerType, LongType, StringType

from pyspark_pravega import errors
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.tables.loading import list_unread_parts, load_table
from pyspark_pravega.datasource.tables.stored_properties import SCHEMA_KEY, read_own_properties
from pyspark_pravega.formats.core.format import find_registry_format

from ..storage.table_properties import show_policy, show_properties, show_stream_properties
from .metadata_table import Rows, column, metadata_table

_VERSION = column("version", IntegerType(), "counts the schemas of one type from 0", nullable=False)
_ID = column("schema_id", IntegerType(), "counts all schemas of the stream", nullable=False)
_TYPE = column("type", StringType(), "of events, in the schema registry", nullable=False)


@metadata_table(
    _VERSION,
    _ID,
    _TYPE,
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
        unread = None if text is None else _find_unread(version.schema.format, text)
        normalized = None if text is None else normalize_schema(version.schema.format, text)
        info = version.version
        canonical, fingerprint = (None, None) if normalized is None else (normalized.canonical, normalized.fingerprint)
        yield info.version, info.id, info.type, info.format, text, policy, unread, canonical, fingerprint


def _find_unread(registry_format: str, text: str) -> str | None:
    try:
        return "; ".join(list_unread_parts(find_registry_format(registry_format), text)) or None
    except (errors.InvalidOptionError, errors.InvalidSchemaError):
        return None  # the schema has no columns


@metadata_table(
    column("encoding_id", LongType(), "stands in the header of events", nullable=False),
    _VERSION,
    _ID,
    _TYPE,
    column("codec", StringType(), "the registry's name of the compression", nullable=False),
)
def encodings(pravega: Pravega, stream: Stream) -> Rows:
    if pravega.config.registry_uri is None:
        return
    registry = pravega.registry(stream.scope)
    for encoding_id in count():
        try:
            encoding = registry.encoding(stream.name, encoding_id, refresh=True)
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
