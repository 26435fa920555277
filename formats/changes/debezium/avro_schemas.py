"""The schemas of the property `debezium.avro-schemas`: in its text, or in a file that it names."""

from __future__ import annotations

import json
import os
import stat

from pyspark_pravega.errors import InvalidOptionError

from ..feed import AVRO_SCHEMAS

LARGEST_FILE = 16 * 1024 * 1024
"""Bytes of a file of schemas at most. The schemas go to every task."""

_SHOWN = 200


def read_schemas(text: str) -> str:
    """Return the property's text if it is JSON, else the content of the file that it names.

    Raises InvalidOptionError for anything but a regular file of JSON that is not too large.
    """
    text = text.strip()
    if not text or text[0] in "{[":
        return text
    try:
        content = _content(text)
        json.loads(content)
    except (OSError, ValueError, RecursionError) as error:
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidOptionError(
            f"'{AVRO_SCHEMAS}'='{shown}' should be JSON, or the path of a regular file with JSON of at most "
            f"{LARGEST_FILE:,} bytes, which is read where the query is planned: {reason}."
        ) from None
    return content


def _content(path: str) -> str:
    """Read a file. Raises OSError, and ValueError for what is no regular file, too large, or not UTF-8."""
    # Without O_NONBLOCK, opening a named pipe waits for somebody who writes.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is no regular file")
        if status.st_size > LARGEST_FILE:
            raise ValueError(f"it has {status.st_size:,} bytes")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(LARGEST_FILE).decode()
    finally:
        os.close(descriptor)


def schemas_by_id(text: str) -> dict[int, str]:
    """Return the texts of the schemas by their ids. Raises InvalidOptionError."""
    found: dict[int, str] = {}
    try:
        content = json.loads(text)
        pairs = content.items() if isinstance(content, dict) else [(each["id"], each["schema"]) for each in content]
        for number, schema in pairs:
            found[int(number)] = schema if isinstance(schema, str) else json.dumps(schema)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidOptionError(
            f'\'{AVRO_SCHEMAS}\' should be a JSON object of schemas by id, such as {{"7": {{"type": "record", '
            '...}}, or a list of objects with "id" and "schema"'
        ) from None
    return found
