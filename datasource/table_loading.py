"""Finds out what a stream is as a table: its configuration, its stored properties and its schema group.

Properties that Pravega has no place for (format, routing key, framing, codec, comment) are kept as tags of the stream:
they live and die with it and are readable with the right to read it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.schema_registry_types import GroupProperties, SchemaVersion
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.datasource.stream_table import RAW_SCHEMA, StreamTable
from pyspark_pravega.errors import (
    InvalidNameError,
    InvalidOptionError,
    SchemaNotFoundError,
    UnsupportedOperationError,
)
from pyspark_pravega.formats.change_feed import is_change_format, table_schema
from pyspark_pravega.formats.format import Format, find_format, format_of_registry
from pyspark_pravega.sql import options as o

TAG_PREFIX = "spark."
_TAG_LIMIT = 256
_TAGS_LIMIT = 128


@dataclass(frozen=True)
class LoadedTable:
    """A stream as found: what tasks need, and what DDL shows of it."""

    table: StreamTable
    configuration: StreamConfiguration
    group: GroupProperties | None
    stored: Mapping[str, str]


def load_table(pravega: Pravega, stream: Stream) -> LoadedTable:
    """Read a stream's table.

    A stream without a schema is a `raw` table. Raises StreamNotFoundError, UnsupportedOperationError for
    schema groups whose events cannot be decoded, SchemaNotFoundError for a table whose schema is not there: taking
    it for a raw one would let bytes be written among its events.
    """
    configuration = pravega.controller.stream_configuration(stream)
    stored = stored_properties(configuration.tags)
    group, schema = _schema(pravega, stream) if stored.get("format") != "raw" else (None, None)
    if schema is None or group is None:
        if stored.get("format", "raw") != "raw":
            raise SchemaNotFoundError(_no_schema(pravega, stream, stored["format"]))
        return LoadedTable(StreamTable(stream, "raw", "none", RAW_SCHEMA), configuration, group, stored)
    try:
        found = _format(stored, group)
    except InvalidOptionError as error:
        raise UnsupportedOperationError(
            f"The events of stream {stream} cannot be decoded: {error.message}. Their bytes can be read with "
            "spark.read.format('pravega').option('format', 'raw')."
        ) from None
    settings = {key: text for key, text in stored.items() if key in o.OPTIONS and o.OPTIONS[key].formats}
    columns = found.spark_schema(schema.schema.text)
    table = StreamTable(
        stream=stream,
        format=found.name,
        framing=stored.get("framing", "registry"),
        schema=table_schema(columns, settings) if is_change_format(found.name) else columns,
        schema_text=schema.schema.text,
        schema_version=schema.version.to_json(),
        codec=stored.get("codec", "none"),
        routing_key=stored.get("routing-key"),
        settings=settings,
    )
    return LoadedTable(table, configuration, group, stored)


def _format(stored: Mapping[str, str], group: GroupProperties) -> Format:
    """The registry tells how rows are encoded, only the table that the events are changes of rows."""
    name = stored.get("format")
    if name in o.CHANGE_FORMATS:
        found = find_format(name)
        if found.registry_format == group.format:
            return found
    return format_of_registry(group.format)


def _no_schema(pravega: Pravega, stream: Stream, format: str) -> str:
    address = pravega.config.registry_uri
    what = f"Stream {stream} is a table of 'format'='{format}', "
    if address is None:
        return f"{what}whose schema is in a schema registry, but none is set. Set 'schema-registry-uri'."
    return (
        f"{what}but the schema registry at {address} has no schema for it. Check 'schema-registry-uri'. The events' "
        "bytes can be read with spark.read.format('pravega').option('format', 'raw')."
    )


def _schema(pravega: Pravega, stream: Stream) -> tuple[GroupProperties | None, SchemaVersion | None]:
    if pravega.config.registry_uri is None:
        return None, None
    registry = pravega.registry(stream.scope)
    try:
        group = registry.group(stream.name)
    except SchemaNotFoundError:
        return None, None
    latest = registry.latest_schemas(stream.name)
    if len(latest) > 1:
        names = ", ".join(sorted(one.version.type for one in latest))
        raise UnsupportedOperationError(
            f"Stream {stream} holds events of several types ({names}), which do not make one table. Their bytes can be "
            "read with spark.read.format('pravega').option('format', 'raw')."
        )
    return group, latest[0] if latest else None


def stored_properties(tags: Iterable[str]) -> dict[str, str]:
    """Return the table properties kept in a stream's tags; other tags are not ours and are passed over."""
    pieces: dict[str, dict[int, str]] = {}
    for tag in tags:
        name, equals, text = tag.removeprefix(TAG_PREFIX).partition("=")
        if not tag.startswith(TAG_PREFIX) or not equals:
            continue
        key, hash_sign, number = name.partition("#")
        if hash_sign and not number.isdigit():
            continue
        pieces.setdefault(key, {})[int(number or 0)] = text
    stored = {}
    for key, parts in pieces.items():
        text = "".join(parts[number] for number in sorted(parts))
        stored[key] = _unpacked(text)
    return stored


def tags_for(properties: Mapping[str, str], others: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the tags that keep these properties, with the tags of others that are already there.

    Raises InvalidNameError when they are too long for the tags a stream can have (about 30 KB).
    """
    tags = [tag for tag in others if not tag.startswith(TAG_PREFIX)]
    for key, value in sorted(properties.items()):
        text = _packed(value)
        room = _TAG_LIMIT - len(f"{TAG_PREFIX}{key}#000=")
        if len(text) <= room:
            tags.append(f"{TAG_PREFIX}{key}={text}")
            continue
        parts = [text[at : at + room] for at in range(0, len(text), room)]
        tags.extend(f"{TAG_PREFIX}{key}#{number}={part}" for number, part in enumerate(parts))
    if len(tags) > _TAGS_LIMIT:
        longest = max(properties, key=lambda key: len(properties[key]))
        raise InvalidNameError(
            f"The table's properties do not fit into the {_TAGS_LIMIT} tags of {_TAG_LIMIT} characters that a stream "
            f"can have; shorten '{longest}' ({len(properties[longest])} characters)."
        )
    return tuple(tags)


def _packed(value: str) -> str:
    """Keep plain text readable; anything the tag store might not keep exactly goes as base64."""
    if value.isascii() and value.isprintable() and not value.startswith("base64:"):
        return value
    return "base64:" + base64.b64encode(value.encode()).decode("ascii")


def _unpacked(text: str) -> str:
    if not text.startswith("base64:"):
        return text
    try:
        return base64.b64decode(text.removeprefix("base64:"), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return text  # a tag of somebody else that happens to look like ours
