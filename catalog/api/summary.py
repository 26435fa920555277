"""Summarizes tables for lists: what kind each is, its segments, its size and its retention."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_pravega.errors import PravegaError
from pyspark_pravega.sql.options import FORMAT, KEY_VALUE_FORMAT, PATTERN_OF_STREAMS, STREAMS

from .catalog import PravegaCatalog
from .table import Table

_RETENTION = ("retention.type", "retention.minimum", "retention.maximum")
SEVERAL_STREAMS = "several streams"


@dataclass(frozen=True)
class TableSummary:
    """What a list shows of a table. Fields that its kind does not have are None.

    `error` is the condition of the error of a table that cannot be loaded.
    """

    table: str
    segments: int | None = None
    bytes: int | None = None
    format: str | None = None
    retention: str | None = None
    error: str | None = None


def summarize_table(catalog: PravegaCatalog, name: str) -> TableSummary:
    """Return the summary of a table; one that cannot be loaded must not hide others."""
    try:
        return summarize_loaded(name, catalog.load_table(name))
    except PravegaError as error:
        return TableSummary(name, error=error.condition)


def has_one_stream(table: Table) -> bool:
    """Return whether a table is one stream. A key-value table has neither segments nor a size in bytes.

    Of a table of several streams, each is listed too.
    """
    properties = table.properties
    several = PATTERN_OF_STREAMS.key in properties or STREAMS.key in properties
    return properties.get(FORMAT.key) != KEY_VALUE_FORMAT and not several


def summarize_loaded(name: str, table: Table) -> TableSummary:
    """Return the summary of a table that is loaded. Raises the errors of measuring it."""
    properties = table.properties
    if not has_one_stream(table):
        is_key_value = properties.get(FORMAT.key) == KEY_VALUE_FORMAT
        return TableSummary(name, format=KEY_VALUE_FORMAT if is_key_value else SEVERAL_STREAMS)
    size = table.size()
    retention = " ".join(properties[key] for key in _RETENTION if key in properties)
    return TableSummary(name, size.segments, size.bytes, properties[FORMAT.key], retention)
