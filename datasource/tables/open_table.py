"""Describes a table as one statement uses it: what planning, reading and writing share, and the options of a read."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.sql import options as o
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


CHANGES_OPTIONS = {
    name.lower(): name
    for name in (
        *("startingVersion", "endingVersion", "startingTimestamp", "endingTimestamp"),
        *("startingBoundInclusive", "endingBoundInclusive", "deduplicationMode", "computeUpdates"),
    )
}
"""Options of `spark.read.changes` that Spark has read itself (ChangelogContextUtils) and passes on with the others."""
_TIME_TRAVEL_OPTIONS = ("versionasof", "timestampasof")
"""Options of `spark.read` that Spark has read itself and passes on with the others."""


class Resolve(Protocol):
    """Resolves the options of a statement over those of a place: of a catalog, or of the environment alone."""

    def __call__(
        self, *, properties: Mapping[str, str] | None = None, read: Mapping[str, str] | None = None
    ) -> o.Options:
        """Check and parse the options of a table and of a read. Raises InvalidOptionError."""
        ...


def resolve_read(resolve: Resolve, table: StreamTable, settings: Mapping[str, str]) -> o.Options:
    """Return the options of a read of a table, or of its changes, together with those of the table.

    `settings` are the options of the query; those that Spark itself has read are left out. Raises InvalidOptionError.
    """
    read = settings
    if table.asked.as_of is not None:
        read = {key: text for key, text in read.items() if key.lower() not in _TIME_TRAVEL_OPTIONS}
    if table.asked.changes is not None:
        read = drop_changes_options(read)
    return resolve(read=read, properties=table.scan_properties)


def drop_changes_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a read of changes that are not Spark's own.

    Raises InvalidOptionError for a key that is almost one of Spark's, and not one of this package.
    """
    ours = {key: value for key, value in options.items() if key.lower() not in CHANGES_OPTIONS}
    for key in ours:
        near = difflib.get_close_matches(key.lower(), CHANGES_OPTIONS, 1, 0.8)
        if near and key.lower() not in o.OPTIONS:
            raise InvalidOptionError(f"There is no option '{key}'. Did you mean '{CHANGES_OPTIONS[near[0]]}'?")
    return ours
