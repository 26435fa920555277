"""What the tags of a stream keep of its table, written and read: the properties for which Pravega has no other place.

Such properties (format, framing, codec, routing key, event time, comment, settings of formats and scans) live and die
with the stream, and the right to read the stream suffices to read them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping

from pyspark.sql.types import StructType

from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import InvalidNameError
from pyspark_pravega.formats.changes.feed import is_change_format
from pyspark_pravega.formats.core.format import find_format
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.option_types import format_duration

from .stream_table import StreamTable, find_kind_of_format
from .table_settings import LONGEST_TAG, READING, TAG_PREFIX, TableSettings, count_milliseconds

SCHEMA_KEY = "schema"
"""The tag that keeps the schema of a table outside the schema registry, as text of its format."""
CREATING_KEY = "creating"
"""The tag of a stream while a statement is making it a table."""
_TAGS_LIMIT = 128
_COMMENT = "comment"


def make_stored_properties(settings: TableSettings, comment: str | None) -> dict[str, str]:
    """Return the properties that are kept as tags of the stream: those that are stored nowhere else.

    The schema registry knows the format too, but a table must be recognized even if the registry cannot be reached.
    """
    has_own_framing = find_format(settings.format).registry_format is not None and (
        settings.framing != "registry" or is_change_format(settings.format)
    )
    kept = {
        o.FORMAT.key: settings.format,
        o.FRAMING.key: settings.framing if has_own_framing else None,
        o.CODEC.key: settings.codec if settings.codec != "none" else None,
        o.ROUTING_KEY.key: settings.routing_key,
        o.ROUTING_KEY_OF_ALL.key: "true" if settings.routing_key_of_all else None,
        o.EVENT_TIME.key: settings.event_time,
        o.EVENT_TIME_DELAY.key: format_duration(settings.event_time_delay) if settings.event_time_delay else None,
        _COMMENT: comment or None,
        **settings.format_settings,
        **settings.scan_properties,
    }
    return {key: text for key, text in kept.items() if text is not None}


def describe_stored_table(
    stream: Stream, format: str, columns: StructType, stored: Mapping[str, str], *, framing: str
) -> StreamTable:
    """Return the table that a stream's properties describe, as `make_stored_properties` has returned them.

    `framing` is the usual one, if they do not name another.
    """
    delay = stored.get(o.EVENT_TIME_DELAY.key)
    return StreamTable(
        stream,
        format,
        stored.get(o.FRAMING.key, framing),
        columns,
        codec=stored.get(o.CODEC.key, "none"),
        routing_key=stored.get(o.ROUTING_KEY.key),
        promised_key=find_promised_key(stored),
        event_time=stored.get(o.EVENT_TIME.key),
        event_time_delay=0 if delay is None else count_milliseconds(o.EVENT_TIME_DELAY.type.parse(delay)),
        kind=find_kind_of_format(format),
        settings={key: text for key, text in stored.items() if key in o.OPTIONS and o.OPTIONS[key].of_formats},
        scan_properties={option.key: stored[option.key] for option in READING if option.key in stored},
    )


def find_promised_key(stored: Mapping[str, str]) -> str | None:
    """Return the column that a table's properties promise to be the routing key of all events, or None."""
    return stored.get(o.ROUTING_KEY.key) if stored.get(o.ROUTING_KEY_OF_ALL.key) == "true" else None


def read_own_properties(tags: Iterable[str]) -> dict[str, str]:
    """Return the table properties in a stream's tags, without tags that are not ours."""
    pieces: dict[str, dict[int, str]] = {}
    for tag in tags:
        name, equals, text = tag.removeprefix(TAG_PREFIX).partition("=")
        if not tag.startswith(TAG_PREFIX) or not equals:
            continue
        key, hash_sign, number = name.partition("#")
        if hash_sign and not number.isdigit():
            continue
        pieces.setdefault(key, {})[int(number or 0)] = text
    return {key: _unpack("".join(parts[number] for number in sorted(parts))) for key, parts in pieces.items()}


def make_tags(properties: Mapping[str, str], others: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the tags that keep these properties, in addition to the stream's other tags.

    Raises InvalidNameError if they are too long for the tags that a stream can have (about 30 KB).
    """
    tags = [tag for tag in others if not tag.startswith(TAG_PREFIX)]
    for key, value in sorted(properties.items()):
        text = _pack(value)
        room = LONGEST_TAG - len(f"{TAG_PREFIX}{key}#000=")
        if len(text) <= room:
            tags.append(f"{TAG_PREFIX}{key}={text}")
            continue
        parts = [text[at : at + room] for at in range(0, len(text), room)]
        tags.extend(f"{TAG_PREFIX}{key}#{number}={part}" for number, part in enumerate(parts))
    if len(names := [tag for tag in tags if not tag.startswith(TAG_PREFIX)]) + len(properties) > _TAGS_LIMIT:
        raise InvalidNameError(
            f"There are {len(names)} names in 'tags', and the table's properties take {len(tags) - len(names)} more of "
            f"the {_TAGS_LIMIT} tags that a stream can have. Leave some out."
        )
    if len(tags) > _TAGS_LIMIT:
        longest = max(properties, key=lambda key: len(properties[key]))
        raise InvalidNameError(
            f"The table's properties do not fit into the {_TAGS_LIMIT} tags of {LONGEST_TAG} characters that a stream "
            f"can have; shorten '{longest}' ({len(properties[longest])} characters)."
        )
    return tuple(tags)


def _pack(value: str) -> str:
    """Keep plain text readable; encode what the tag store might not keep exactly as base64."""
    if value.isascii() and value.isprintable() and not value.startswith("base64:"):
        return value
    return "base64:" + base64.b64encode(value.encode()).decode("ascii")


def _unpack(text: str) -> str:
    if not text.startswith("base64:"):
        return text
    try:
        return base64.b64decode(text.removeprefix("base64:"), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return text  # another program's tag that happens to look like ours
