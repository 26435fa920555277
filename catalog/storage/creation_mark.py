"""The mark that a stream has while a statement makes a table of it: whose, with which columns, until when.

It is a tag of the stream, which is made with it and goes when the schema is registered. Without the mark, the remains
of an interrupted CREATE TABLE would look like a table whose schema is in another registry. Until the mark's time is
over, the statement may be running. Then another statement may complete the table under its own mark. If the first one
is still running nevertheless, it undoes nothing.
"""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.tables.loading import LoadedTable
from pyspark_pravega.datasource.tables.stored_properties import CREATING_KEY, read_own_properties
from pyspark_pravega.datasource.tables.table_settings import TAG_PREFIX
from pyspark_pravega.errors import PravegaError, StreamNotFoundError

from .catalogs import Catalog

LOG = logging.getLogger(__name__)
_LEAST_PATIENCE = 10.0
MAKING, UNDOING, _CLOCKS = 2, 1, 1
"""How many times its patience a statement may make a table, undo that, and how far clocks may be apart."""


def choose_patience(config: ClientConfig) -> float:
    """Return the seconds of which a statement may take MAKING to make a table, and UNDOING to undo that."""
    return max(config.retry_timeout, _LEAST_PATIENCE)


@dataclass(frozen=True)
class CreationMark:
    """The mark of a statement that makes a table: its own name, a digest of what it registers and where, its end."""

    owner: str
    digest: str
    until: int
    """In milliseconds since 1970: the statement is over then, one way or another."""

    @classmethod
    def new(cls, config: ClientConfig, schema: str) -> CreationMark:
        """Return the mark of a statement that begins to register this schema."""
        lasting = (MAKING + UNDOING + _CLOCKS) * choose_patience(config)
        return cls(uuid.uuid4().hex, _hash_schema(config, schema), round((time.time() + lasting) * 1000))

    @property
    def stored(self) -> dict[str, str]:
        """Return the property that a tag keeps."""
        return {CREATING_KEY: f"{self.owner} {self.digest} {self.until}"}

    @property
    def is_over(self) -> bool:
        """Return whether the statement cannot be running any more."""
        return time.time() * 1000 > self.until

    @property
    def end(self) -> str:
        """Return the time when it is over, for messages."""
        return datetime.fromtimestamp(self.until / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

    def is_for(self, config: ClientConfig, schema: str) -> bool:
        """Return whether the statement registers this schema, in this registry."""
        return self.digest == _hash_schema(config, schema)


def read_mark(stored: Mapping[str, str]) -> CreationMark | None:
    """Return the mark among the properties of a stream, or None."""
    match stored.get(CREATING_KEY, "").split(" "):
        case [owner, digest, until] if until.isdecimal():
            return CreationMark(owner, digest, int(until))
    return None


def find_mark(catalog: Catalog, stream: Stream) -> CreationMark | None:
    """Look up the mark of a stream. Raises StreamNotFoundError."""
    return read_mark(read_own_properties(catalog.pravega.controller.stream_configuration(stream).tags))


def is_left_to(catalog: Catalog, stream: Stream, mark: CreationMark) -> bool:
    """Return whether no other statement has claimed the stream."""
    try:
        return find_mark(catalog, stream) == mark
    except StreamNotFoundError:
        return True


def remove_mark(catalog: Catalog, loaded: LoadedTable) -> None:
    """Take the mark from a table that has its schema. If that fails, the next CREATE TABLE does it."""
    if CREATING_KEY not in loaded.stored:
        return
    stream, configuration = loaded.table.stream, loaded.configuration
    try:
        tags = tuple(tag for tag in configuration.tags if not tag.startswith(f"{TAG_PREFIX}{CREATING_KEY}="))
        catalog.pravega.controller.update_stream(stream, replace(configuration, tags=tags))
    except PravegaError as error:
        if not _is_marked(catalog, stream):
            return  # another statement has removed it
        LOG.warning("Table %s is made, but keeps the tag %s%s: %s", stream, TAG_PREFIX, CREATING_KEY, error)


def _is_marked(catalog: Catalog, stream: Stream) -> bool:
    """Return whether a stream has a mark; True even if it cannot be looked up."""
    try:
        return find_mark(catalog, stream) is not None
    except StreamNotFoundError:
        return False
    except PravegaError:
        return True


def _hash_schema(config: ClientConfig, schema: str) -> str:
    return hashlib.sha256(f"{(config.registry_uri or '').rstrip('/')}\n{schema}".encode()).hexdigest()[:32]
