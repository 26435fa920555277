"""Tells which values of a table's events are in no column, because its schema says more than columns can show."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from pyspark_pravega.client.stream import Stream
from pyspark_pravega.formats.core.format import Format

LOG = logging.getLogger(__name__)

_told: set[tuple[Stream, str]] = set()


@runtime_checkable
class PartlyReadFormat(Format, Protocol):
    """A format whose schemas can say more of events than its columns show."""

    def unread(self, schema_text: str) -> Sequence[str]:
        """Return a phrase for each part of a schema whose values are in no column. Raises InvalidSchemaError."""
        ...


def unread_parts(format: Format, schema_text: str) -> Sequence[str]:
    """Return what a schema says of values that are in no column, nothing for formats that show all."""
    return format.unread(schema_text) if isinstance(format, PartlyReadFormat) else ()


def tell_unread(stream: Stream, format: Format, schema_text: str) -> None:
    """Warn of values that are in no column, once per stream, schema and process."""
    if (stream, schema_text) in _told:
        return
    _told.add((stream, schema_text))
    if unread := unread_parts(format, schema_text):
        LOG.warning(
            "The schema of %s, made by another program, speaks of values that are in no column: %s. The column "
            "`unread` of the metadata table `schemas` says so too.",
            stream,
            "; ".join(unread),
        )
