"""The formats `raw` and `text`: one column holds the whole event, as bytes or as UTF-8 text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from pyspark_pravega.errors import InvalidRowError, UnsupportedOperationError, UnsupportedTypeError

from ..core.arrow_types import arrow_schema
from ..core.batches import PayloadReader, UniformDecoder, read_each
from ..core.columns import Problems
from ..core.events import EventBuffer
from ..core.format import Decoder, Encoder, Layout, Resolve
from ..core.framing import decode_text
from ..core.writing import NOT_UTF8, find_invalid_text, make_row_error


def check_bare(format: str, encoding_id: int | None, codec: str) -> None:
    """Raise UnsupportedOperationError for a registry header or a codec, which events of the format cannot have."""
    if encoding_id is not None or codec not in ("", "none"):
        raise UnsupportedOperationError(
            f"{format} events have neither registry header nor codec; use format avro or json, or leave 'codec' out"
        )


def make_no_schema_error(format: str) -> UnsupportedOperationError:
    """Return the error for a request for the type name, which only schemas in the registry have."""
    return UnsupportedOperationError(f"a {format} table has no schema in the registry; use format avro or json")


RAW_SCHEMA = StructType([StructField("event", BinaryType())])
TEXT_SCHEMA = StructType([StructField("value", StringType())])


@dataclass(frozen=True)
class WholeEventFormat:
    """A format whose tables have one column, of the type of the only column of `columns`.

    `others`: the formats that a message recommends for other columns. The registry knows no such format.
    """

    name: str
    columns: StructType
    others: str

    registry_format = None
    changes = False

    def schema_text(self, layout: Layout, name: str, namespace: str, comment: str | None = None) -> str:
        """Return the empty text. Raises UnsupportedTypeError unless there is one column, of the right type."""
        self._check(layout.columns)
        return ""

    def spark_schema(self, schema_text: str) -> StructType:
        """Return the only possible columns, whatever the text."""
        return self.columns

    def type_name(self, schema_text: str) -> str:
        raise make_no_schema_error(self.name)

    def decoder(self, layout: Layout, resolve: Resolve | None = None) -> Decoder:
        """Make a decoder that does not look for headers: `resolve` is not used."""
        if len(layout.columns):
            self._check(layout.columns)
        return UniformDecoder("", layout.columns, None, _WholeEventReader(layout.columns))

    def encoder(self, layout: Layout, encoding_id: int | None = None, codec: str = "") -> Encoder:
        """Make an encoder of the only column. Headers and codecs are not possible."""
        check_bare(self.name, encoding_id, codec)
        self._check(layout.columns)
        return _WholeEventEncoder()

    def _check(self, schema: StructType) -> None:
        type_of_event = self.columns[0].dataType
        if len(schema) == 1 and isinstance(schema[0].dataType, type(type_of_event)):
            return
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema) or "none"
        raise UnsupportedTypeError(
            f"a {self.name} table has exactly one column, of type {type_of_event.typeName().upper()}, but these were "
            f"given: {columns}; use format {self.others} for others"
        )


make_raw_format = partial(WholeEventFormat, "raw", RAW_SCHEMA, "avro or json")
"""Makes the format of events that are bytes."""
make_text_format = partial(WholeEventFormat, "text", TEXT_SCHEMA, "csv, avro or json")
"""Makes the format of events that are any text."""


class _WholeEventReader(PayloadReader):
    """Reads payloads as the values of the only column, any number at once: Arrow casts them."""

    piece_events = piece_bytes = 1 << 40

    def __init__(self, columns: StructType) -> None:
        self._types = [field.type for field in arrow_schema(columns)]

    def arrays(self, payloads: EventBuffer, padded: bool, problems: Problems) -> list[pa.Array]:
        if not self._types:  # rows that are only counted
            return []
        events = payloads.to_arrow()
        try:
            # Casting binary to string, Arrow checks that everything is UTF-8.
            return [events.cast(self._types[0])]
        except pa.ArrowInvalid:
            return [pa.array(read_each(payloads, decode_text, problems), pa.string())]


class _WholeEventEncoder:
    def encode(self, batch: pa.RecordBatch) -> pa.LargeBinaryArray:
        column = batch.column(0)
        if column.null_count:
            row = pc.index(column.is_null(), True).as_py()
            raise InvalidRowError(
                f"row {row} of the batch has no value in column '{batch.schema.names[0]}', "
                "which is the whole event or value; filter such rows out"
            )
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            return column.cast(pa.large_binary())
        invalid = find_invalid_text(column)
        if invalid is not None:
            raise make_row_error(invalid, batch.schema.names[0], NOT_UTF8)
        return column.cast(pa.large_string()).cast(pa.large_binary())
