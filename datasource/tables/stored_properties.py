"""What the tags of a stream keep of its table, written and read: the properties for which Pravega has no other place.

Such properties (format, framing, codec, routing key, event time, comment, settings of formats and scans) live and die
with the stream, and the right to read the stream suffices to read them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark_pravega.errors import InvalidNameError
from pyspark_pravega.formats.changes.feed import is_change_format
from pyspark_pravega.formats.core.format import find_format
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.table_settings import LONGEST_TAG, TAG_PREFIX, TableSettings, count_milliseconds

SCHEMA_KEY = "schema"
"""The tag that keeps the schema of a table outside the schema registry, as text of its format."""
CREATING_KEY = "creating"
"""The tag of a stream while a statement is making it a table."""
_TAGS_LIMIT = 128
_COMMENT = "comment"
_DURATIONS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))


def make_stored_properties(settings: TableSettings, comment: str | None) -> dict[str, str]:
    """Return the properties that are kept as tags of the stream: those that are stored nowhere else.

    The schema registry knows the format too, but a table must be recognized even if the registry cannot be reached.
    """
    kept = {o.FORMAT.key: settings.format}
    if find_format(settings.format).registry_format is not None and (
        settings.framing != "registry" or is_change_format(settings.format)
    ):
        kept[o.FRAMING.key] = settings.framing
    if settings.codec != "none":
        kept[o.CODEC.key] = settings.codec
    if settings.routing_key is not None:
        kept[o.ROUTING_KEY.key] = settings.routing_key
    if settings.routing_key_of_all:
        kept[o.ROUTING_KEY_OF_ALL.key] = "true"
    if settings.event_time is not None:
        kept[o.EVENT_TIME.key] = settings.event_time
    if settings.event_time_delay:
        kept[o.EVENT_TIME_DELAY.key] = format_duration(settings.event_time_delay)
    if comment:
        kept[_COMMENT] = comment
    return kept | dict(settings.format_settings) | dict(settings.scan_properties)


@dataclass(frozen=True)
class StoredSettings:
    """The settings of a table that `make_stored_properties` has stored."""

    format: str | None
    """None for a stream that was never declared as a table."""
    framing: str | None
    """None for the usual one of the format."""
    codec: str
    routing_key: str | None
    promised_key: str | None
    """The routing key, if the table promises that all events have it."""
    event_time: str | None
    event_time_delay: int
    """In milliseconds."""
    comment: str | None
    format_settings: Mapping[str, str]
    scan_properties: Mapping[str, str]


def read_stored_properties(stored: Mapping[str, str]) -> StoredSettings:
    """Read what `make_stored_properties` has returned."""
    delay = stored.get(o.EVENT_TIME_DELAY.key)
    return StoredSettings(
        format=stored.get(o.FORMAT.key),
        framing=stored.get(o.FRAMING.key),
        codec=stored.get(o.CODEC.key, "none"),
        routing_key=stored.get(o.ROUTING_KEY.key),
        promised_key=find_promised_key(stored),
        event_time=stored.get(o.EVENT_TIME.key),
        event_time_delay=0 if delay is None else count_milliseconds(o.EVENT_TIME_DELAY.type.parse(delay)),
        comment=stored.get(_COMMENT),
        format_settings={key: text for key, text in stored.items() if key in o.OPTIONS and o.OPTIONS[key].of_formats},
        scan_properties={key: stored[key] for key in (o.MODE.key, o.DEAD_LETTER.key) if key in stored},
    )


def find_promised_key(stored: Mapping[str, str]) -> str | None:
    """Return the column that a table's properties promise to be the routing key of all events, or None."""
    return stored.get(o.ROUTING_KEY.key) if stored.get(o.ROUTING_KEY_OF_ALL.key) == "true" else None


def format_duration(value: int) -> str:
    """Return a number of milliseconds as options write it, in the largest unit without a rest."""
    size, unit = next((size, unit) for size, unit in _DURATIONS if value % size == 0)
    return f"{value // size}{unit}"


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
    stored = {}
    for key, parts in pieces.items():
        text = "".join(parts[number] for number in sorted(parts))
        stored[key] = _unpack(text)
    return stored


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
