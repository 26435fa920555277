"""Defines what a format is, and lists all formats.

A `Format` turns events into Arrow batches (`Decoder`), batches into events (`Encoder`) and Spark schemas
into schema texts and back. Everything here can be used in a Python worker: decoders are built from
picklable parts (schemas, texts and a function that looks encoding ids up).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Protocol

import pyarrow as pa
from pyspark.sql.types import StructType

from pyspark_pravega.errors import InvalidOptionError

from .events import EventBuffer


@dataclass(frozen=True)
class WriterSchema:
    """The schema that an encoding id stands for.

    `format` is the registry's name of the format ("Avro", "Json", ...), `codec` its name of the codec ("" means none).
    """

    schema_text: str
    format: str
    codec: str


Resolve = Callable[[int], WriterSchema]
"""Looks an encoding id up. Raises SchemaNotFoundError for an id that the registry does not have; that
makes the events with this id bad, while any other error (server unreachable, access denied) ends the decoding."""


Settings = Mapping[str, str]
"""Table properties that belong to the format, by key, as checked text."""

NO_SETTINGS: Settings = MappingProxyType({})


@dataclass(frozen=True)
class Layout:
    """How rows become events: their columns, the table's schema text, and the settings of the table's format.

    To read, `columns` are the table's, already cut down to what is needed; to write, those of the rows. Without a text
    it is the one that `Format.schema_text` would make.
    """

    columns: StructType
    schema_text: str | None = None
    settings: Settings = field(default_factory=dict)


class BadEvent(Exception):
    """Raised or recorded for an event that cannot be read. Internal to formats and their callers, who know its offset.

    `index` is the position in the decoded EventBuffer, `reason` a phrase, with the column path if there is one.
    """

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(index, reason)
        self.index = index
        self.reason = reason

    def __str__(self) -> str:
        return f"event {self.index}: {self.reason}"


class Decoder(Protocol):
    """Reads events as rows.

    For example:

        columns = StructType([StructField("id", IntegerType())])
        decoder = find_format("json").decoder(Layout(columns))
        batch, bad = decoder.decode_valid(EventBuffer.of([b'{"id": 1}', b"{"]))
        print(batch.to_pylist(), bad)
    """

    @property
    def schema(self) -> pa.Schema:
        """Return exactly `arrow_schema(layout.columns)`."""
        ...

    def decode(self, events: EventBuffer) -> pa.RecordBatch:
        """Return one row per event, in the order of the events. Raises BadEvent for the first bad event."""
        ...

    def decode_valid(self, events: EventBuffer) -> tuple[pa.RecordBatch, list[BadEvent]]:
        """Return one row per good event, in order, and all bad events by ascending index. Never raises BadEvent."""
        ...


class Encoder(Protocol):
    """Writes rows as events.

    For example:

        columns = StructType([StructField("id", IntegerType())])
        rows = pa.RecordBatch.from_pydict({"id": pa.array([1, 2], pa.int32())})
        print(find_format("json").encoder(Layout(columns)).encode(rows).to_pylist())
    """

    def encode(self, batch: pa.RecordBatch) -> pa.LargeBinaryArray:
        """Return the payload of each row, with the registry's header if there is an encoding id.

        Takes the Arrow layout that Spark hands to Python writers. Raises InvalidRowError naming the
        column for a row that the schema does not allow.
        """
        ...


class Format(Protocol):
    """A kind of payload: reads and writes it, and maps its schema texts to Spark types.

    Formats are found by their names; docs/formats/own.md describes how to bring another one.

        format = find_format("avro")
        layout = Layout(StructType([StructField("id", IntegerType())]))
        text = format.schema_text(layout, "temperatures", "plant")
        assert format.spark_schema(text).fieldNames() == ["id"]
    """

    @property
    def name(self) -> str:
        """Return the name, as in the table property `format`."""
        ...

    @property
    def registry_format(self) -> str | None:
        """Return the registry's name of the format; None if the registry does not know it."""
        ...

    @property
    def changes(self) -> bool:
        """Return whether events are changes of rows, as in a `ChangeFormat`; if it is missing, they are not."""
        ...

    def schema_text(self, layout: Layout, name: str, namespace: str, comment: str | None = None) -> str:
        """Return the text to register for a table of this layout, which has no text yet.

        Raises UnsupportedTypeError or InvalidNameError naming the column that the format cannot hold.
        """
        ...

    def spark_schema(self, schema_text: str) -> StructType:
        """Return the columns of a table with this schema text. Raises InvalidSchemaError."""
        ...

    def type_name(self, schema_text: str) -> str:
        """Return the name of the type, which the registry wants in addition to the text. Raises InvalidSchemaError."""
        ...

    def decoder(self, layout: Layout, resolve: Resolve | None = None) -> Decoder:
        """Make a decoder. `resolve=None` means events without registry header, written with the table's schema."""
        ...

    def encoder(self, layout: Layout, encoding_id: int | None = None, codec: str = "") -> Encoder:
        """Make an encoder. `encoding_id=None` means no registry header.

        `codec` is "", "gzip" or "snappy", or the registry's name of one of these.
        """
        ...


FORMATS: dict[str, str] = {
    "avro": "pyspark_pravega.formats.avro.format:AvroFormat",
    "csv": "pyspark_pravega.formats.plain.csv:CsvFormat",
    "debezium-avro": "pyspark_pravega.formats.changes.debezium.avro:DebeziumAvroFormat",
    "debezium-json": "pyspark_pravega.formats.changes.debezium.json:DebeziumJsonFormat",
    "json": "pyspark_pravega.formats.json.format:JsonFormat",
    "maxwell-json": "pyspark_pravega.formats.changes.maxwell_json:MaxwellJsonFormat",
    "protobuf": "pyspark_pravega.formats.protobuf.format:ProtobufFormat",
    "raw": "pyspark_pravega.formats.plain.whole_event:make_raw_format",
    "text": "pyspark_pravega.formats.plain.whole_event:make_text_format",
}
"""The class or function that makes each format, imported on first use."""

REGISTRY_FORMATS = {"Avro": "avro", "Json": "json", "Protobuf": "protobuf"}
"""The formats that read what the schema registry calls by these names, unless a table says otherwise."""

ENTRY_POINTS = "pyspark_pravega.formats"
"""The group of entry points by which other distributions bring formats: name -> class of a `Format`."""


def find_format(name: str) -> Format:
    """Return the format of this name, in any case: one of this package, or another distribution's by its entry point.

    Raises InvalidOptionError with all known names, or with the reason why an installed format cannot be used.
    """
    name = name.lower()
    location = FORMATS.get(name)
    if location is None:
        return _installed_format(name)
    format: Format = EntryPoint(name, location, ENTRY_POINTS).load()()
    return format


def can_share_stream(first: str, second: str) -> bool:
    """Return whether programs may mean to write events of both formats into one stream.

    Text of one kind may be meant for a table of another, and bytes (`raw`) can be events of any format. A reader of a
    binary format fails at events of others, and so do others at its events.
    """
    binary = [name.rpartition("-")[2] in ("avro", "protobuf") for name in (first, second)]
    return first == second or "raw" in (first, second) or not any(binary)


def list_format_names() -> list[str]:
    """Return the names of all formats, including those of other distributions."""
    return sorted(FORMATS.keys() | {point.name.lower() for point in entry_points(group=ENTRY_POINTS)})


@functools.cache
def _installed_format(name: str) -> Format:
    point = next((point for point in entry_points(group=ENTRY_POINTS) if point.name.lower() == name), None)
    if point is None:
        raise InvalidOptionError(f"'{name}' of 'format' is unknown; expected one of {', '.join(list_format_names())}")
    try:
        format = point.load()()
    except Exception as error:
        raise InvalidOptionError(
            f"the format '{name}' ({point.value}) cannot be used: {type(error).__name__}: {error}"
        ) from error
    members = _MEMBERS + (_CHANGE_MEMBERS if getattr(format, "changes", False) else ())
    missing = [member for member in members if not hasattr(format, member)]
    if missing:
        raise InvalidOptionError(f"the format '{name}' ({point.value}) has no {', '.join(missing)}")
    if format.name != name:
        raise InvalidOptionError(f"the format '{name}' ({point.value}) calls itself '{format.name}'")
    checked: Format = format
    return checked


_MEMBERS = ("name", "registry_format", "schema_text", "spark_schema", "type_name", "decoder", "encoder")
_CHANGE_MEMBERS = ("infer_columns", "truncate_candidates")


def find_registry_format(registry_format: str) -> Format:
    """Return the format that reads what the registry calls `registry_format` ("Avro", "Json", "Protobuf").

    Raises InvalidOptionError for a format that cannot be read (Custom).
    """
    name = REGISTRY_FORMATS.get(registry_format)
    if name is None:
        raise InvalidOptionError(
            f"schemas of the registry's format '{registry_format}' cannot be read; those of "
            f"{', '.join(sorted(REGISTRY_FORMATS))} can"
        )
    return find_format(name)
