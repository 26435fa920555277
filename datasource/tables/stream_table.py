"""Describes a stream, or a part of one, as a table with a name, for readers and writers: small and picklable.

A `StreamTable` has no secrets. One of a key-value table has `KeyColumns`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from pyspark.sql.types import BinaryType, StructField, StructType

from pyspark_pravega.client.stream import Stream
from pyspark_pravega.formats.changes.feed import is_change_format
from pyspark_pravega.formats.core.batches import BatchDecoder
from pyspark_pravega.formats.core.format import Decoder, Encoder, Layout, Resolve, find_format
from pyspark_pravega.formats.core.framing import CONFLUENT
from pyspark_pravega.formats.plain.whole_event import TEXT_SCHEMA

from .change_range import AsOf, ChangeRange


@dataclass(frozen=True)
class KeyColumn:
    """A column, its type as Spark's DESCRIBE spells it, and the number of its bytes in a key."""

    name: str
    type: str
    bytes: int


@dataclass(frozen=True)
class KeyColumns:
    """The columns of the primary key, whose hash decides the partition, and those of the secondary key after it."""

    primary: tuple[KeyColumn, ...]
    secondary: tuple[KeyColumn, ...] = ()

    @property
    def all(self) -> tuple[KeyColumn, ...]:
        """Return the columns in the order of their bytes."""
        return self.primary + self.secondary

    @property
    def names(self) -> list[str]:
        """Return the names of the columns, in the order of their bytes."""
        return [column.name for column in self.all]

    @property
    def primary_length(self) -> int:
        """Return the bytes of a primary key."""
        return sum(column.bytes for column in self.primary)

    @property
    def secondary_length(self) -> int:
        """Return the bytes of a secondary key, 0 if the table has none."""
        return sum(column.bytes for column in self.secondary)

    @property
    def length(self) -> int:
        """Return the bytes of a key."""
        return self.primary_length + self.secondary_length

    def to_json(self) -> dict[str, Any]:
        return {
            name: [[column.name, column.type, column.bytes] for column in columns]
            for name, columns in (("primary", self.primary), ("secondary", self.secondary))
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> KeyColumns:
        return cls(*(tuple(KeyColumn(*column) for column in value[name]) for name in ("primary", "secondary")))


_SIGN = "$"
"""Between the name of a stream and that of a part. Pravega's own names never have it."""

CHANGELOG = "changelog"
"""The part that has each event of a table of changes as a row."""
KEY_VALUE_TABLE = "kvtable"
"""The suffix that names a key-value table, if a stream has the same name."""


@dataclass(frozen=True)
class TableName:
    """The name of a table in its scope: `stream`, or `stream$part` for a changelog or the events of one type."""

    stream: str
    part: str | None = None

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Read a name as statements give it. The part is empty in a name that ends with the sign."""
        stream, sign, part = text.partition(_SIGN)
        return cls(stream, part if sign else None)

    @property
    def is_key_value_table(self) -> bool:
        """Return whether the name says that a key-value table is meant."""
        return self.part == KEY_VALUE_TABLE

    def __str__(self) -> str:
        return self.stream if self.part is None else f"{self.stream}{_SIGN}{self.part}"


RAW_SCHEMA = StructType([StructField("event", BinaryType(), nullable=False)])
"""The columns of a stream that has no schema."""

FIXED_COLUMNS = {"raw": RAW_SCHEMA, "text": TEXT_SCHEMA}
"""The columns of formats whose columns are always the same."""


REGISTRY_CODECS = {"none": "", "gzip": "application/x-gzip", "snappy": "application/x-snappy-framed"}
"""The registry's names of the codecs. What it calls `snappy-framed` is in fact the raw block format."""


class KindName(StrEnum):
    """The names of the kinds of tables; `datasource/kinds` has each kind, a `TableKind`."""

    EVENTS = "events"
    """Every event is a row."""
    TYPED_EVENTS = "typed-events"
    """Every event of one type is a row, where the stream has events of several types."""
    CHANGES = "changes"
    """The rows are the latest states that result from the events, which are changes of rows."""
    CHANGELOG = "changelog"
    """Every event of a stream of changes is a row."""
    MERGED = "merged"
    """Every event of several streams is a row."""
    ENTRIES = "entries"
    """Every entry of a key-value table is a row. Then `stream` holds the scope and the name of that table."""


def make_entries_table(stream: Stream, format: str, columns: StructType, keys: KeyColumns, **more: Any) -> StreamTable:
    """Return a key-value table with these columns; `format` is the format of its values."""
    return StreamTable(stream, format, "none", columns, kind=KindName.ENTRIES, keys=keys, **more)


def find_kind_of_format(format: str, event_type: str | None = None) -> KindName:
    """Return the kind of a table whose events, those of one type or all (None), are in `format`.

    Raises InvalidOptionError for an unknown format.
    """
    if is_change_format(format):
        return KindName.CHANGES
    return KindName.EVENTS if event_type is None else KindName.TYPED_EVENTS


@dataclass(frozen=True)
class Asked:
    """How a statement asked for a table: by which name, as of when, and for its rows or its changes."""

    called: tuple[str, str] | None = None
    """The scope and the stream as the statement spelled them, if Pravega spells them differently."""
    as_of: AsOf | None = None
    """The position up to which a query reads, if it asks for the table as it was."""
    changes: ChangeRange | None = None
    """The range of changes that a query with CHANGES reads instead of the table."""
    permissive: bool = False
    """All columns are nullable to Spark, since bad events are rows of nulls."""


@dataclass(frozen=True)
class StreamTable:
    """A stream with the format of its events.

    `framing` is `registry` or `confluent` (each event starts with that registry's header) or `none`. `schema_text` and
    `schema_version` are those of the registry's schema that writers use; both are None for raw streams and for tables
    whose schema the reader gave. `schema_version` is the registry's VersionInfo as a JSON object.
    """

    stream: Stream
    format: str
    framing: str
    schema: StructType
    schema_text: str | None = None
    schema_version: Mapping[str, Any] | None = None
    codec: str = "none"
    routing_key: str | None = None
    promised_key: str | None = None
    """The column that the table promises to be the routing key of all events of the stream, if any."""
    event_time: str | None = None
    event_time_delay: int = 0
    """By how many milliseconds rows may be older than rows before them."""
    kind: KindName = KindName.EVENTS
    settings: Mapping[str, str] = field(default_factory=dict)
    """Table properties that only the format uses."""
    scan_properties: Mapping[str, str] = field(default_factory=dict)
    """Table properties that apply to scans, unless a query says otherwise."""
    event_type: str | None = None
    """The registry's name of the events' type, if the stream has events of several types."""
    members: Sequence[StreamTable] = ()
    """The tables that are read as this one, which has the columns of all of them. Then `stream` holds a scope, and the
    name of the table or the text that named its members."""
    identity: str | None = None
    """Of a member: what distinguishes its stream from one recreated under its name, if that is known."""
    keys: KeyColumns | None = None
    """The key columns of a key-value table. The others are in the values, in the table's format."""
    first_segment: int | None = None
    """The first segment's id of a key-value table, which distinguishes it from one recreated under its name."""
    asked: Asked = Asked()
    """How the loading statement asked for it. All else is the same whoever asks."""

    def as_asked(self, **changes: Any) -> StreamTable:
        """Return the table as a statement asked for it, which gives these fields of `changes`."""
        return replace(self, asked=replace(self.asked, **changes))

    def make_decoder(self, columns: StructType, resolve: Resolve | None = None) -> Decoder:
        """Return a decoder of some columns. `resolve` looks schemas up if events carry the registry's header."""
        layout = Layout(columns, self.schema_text, self.settings)
        decoder = find_format(self.format).decoder(layout, resolve if self.framed else None)
        if self.framing == CONFLUENT and isinstance(decoder, BatchDecoder):
            decoder.expect_confluent()
        return decoder

    def make_encoder(self, rows: StructType, encoding_id: int | None = None) -> Encoder:
        """Return an encoder of rows, with the registry's header if there is an id. Raises InvalidSchemaError."""
        layout = Layout(rows, self.schema_text, self.settings)
        return find_format(self.format).encoder(layout, encoding_id, REGISTRY_CODECS[self.codec])

    @property
    def framed(self) -> bool:
        """Return whether events carry the header of a registry, Pravega's or Confluent's."""
        return self.framing != "none" and find_format(self.format).registry_format is not None

    @property
    def is_bytes(self) -> bool:
        """Return whether it shows events as bytes, as it does where a stream has no schema."""
        return self.format == "raw"

    @property
    def has_one_version(self) -> bool:
        """Return whether its schema cannot have a second version, since events do not say with which they were written.

        Those of other formats can be read without that.
        """
        return self.format == "avro" and not self.framed

    @property
    def changes_range(self) -> ChangeRange:
        """Return the range of changes that is read, of a table that has one."""
        assert self.asked.changes is not None
        return self.asked.changes
