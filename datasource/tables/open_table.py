"""Describes a table as one statement uses it: the values that planning, reading and writing share."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.sql.options import Options

from .bad_events import BadEventRule
from .stream_table import StreamTable


@dataclass(frozen=True)
class OpenTable:
    """A connection, a table, and the resolved options of one statement.

    The kinds of tables in `datasource/kinds` are its subclasses. The options of a read include the
    table's `scan_properties`.
    """

    pravega: Pravega
    table: StreamTable
    options: Options

    @property
    def stream(self) -> Stream:
        """Return the stream; for a key-value table, its scope and name."""
        return self.table.stream


@dataclass(frozen=True)
class OpenRead(OpenTable):
    """A table as one read sees it, with the settings of its statement."""

    rule: BadEventRule
    """How bad events are treated."""
