"""Converts between messages and their text in Protobuf's own JSON mapping, for columns that hold such texts.

Fields have their names in the schema, like columns, and not the camel case that the mapping prefers. Unset fields are
left out. https://protobuf.dev/programming-guides/json/
"""

from __future__ import annotations

import json
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from ..core.framing import Undecodable
from .schema_to_spark import JSON_VALUES, find_entry_fields, is_map, is_repeated

_SHOWN = 200
"""Most characters of a reason in a message."""

NOT_UTF_8 = "a string in it is not UTF-8 text"


def check_text(value: Any) -> Any:
    """Return a string of the library. Raises Undecodable for bytes: unchecked strings that are not UTF-8."""
    if isinstance(value, bytes):
        raise Undecodable(NOT_UTF_8)
    return value


def write_json_text(message: Message) -> str:
    """Return a message as JSON text without blanks. Raises Undecodable if the mapping cannot express it."""
    _check_strings(message)
    pool: Any = message.DESCRIPTOR.file.pool  # of types that an Any may have
    try:
        mapped = json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=pool)
    except (json_format.Error, ValueError, TypeError) as error:
        raise Undecodable(f"a {message.DESCRIPTOR.full_name} in it has no JSON text ({error})") from None
    return json.dumps(mapped, ensure_ascii=False, separators=(",", ":"))


def fill_from_json(message: Message, text: str) -> None:
    """Fill an empty message from a JSON text. Raises ValueError for a text that does not fit."""
    pool: Any = message.DESCRIPTOR.file.pool
    name = message.DESCRIPTOR.full_name
    if name not in JSON_VALUES and not text.lstrip().startswith("{"):
        raise ValueError(f"not a JSON object, which {name} needs")
    try:
        json_format.Parse(text, message, descriptor_pool=pool)
    except (json_format.ParseError, ValueError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split()).partition(" Available Fields")[0].rstrip(".")
        if len(reason) > _SHOWN:
            # The cause is at the end, after the names of all fields on the way.
            reason = f"...{reason[-_SHOWN:]}"
        raise ValueError(f"not JSON that fits {name} ({reason})") from None


def _check_strings(message: Any) -> None:
    """Raise Undecodable for a string that is not UTF-8, which the library would show as a Python bytes literal."""
    for field, found in message.ListFields():
        values = [found]
        if is_map(field):
            # Strings among the keys and values of maps are checked when they are read.
            field, values = find_entry_fields(field)[1], list(found.values())
        elif is_repeated(field):
            values = list(found)
        if field.message_type is not None:
            for value in values:
                _check_strings(value)
        elif field.type == FieldDescriptor.TYPE_STRING:
            for value in values:
                check_text(value)
