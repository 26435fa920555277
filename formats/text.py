"""The text format: one column `value STRING`, the event's bytes as UTF-8."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StringType, StructField, StructType

from pyspark_pravega.errors import InvalidRowError, UnsupportedOperationError, UnsupportedTypeError
from pyspark_pravega.formats.events import EventBuffer
from pyspark_pravega.formats.format import NO_SETTINGS, BadEvent, Decoder, Encoder, Resolve, Settings
from pyspark_pravega.formats.schema.arrow import arrow_schema

TEXT_SCHEMA = StructType([StructField("value", StringType())])


class TextFormat:
    """Events that are text, whatever it says. The registry has nothing to do with such a stream."""

    name = "text"
    registry_format = None

    def schema_text(
        self,
        schema: StructType,
        name: str,
        namespace: str,
        comment: str | None = None,
        settings: Settings = NO_SETTINGS,
    ) -> str:
        """The empty text for a schema of one STRING column; raises UnsupportedTypeError for any other."""
        _check_one_string_column(schema)
        return ""

    def spark_schema(self, schema_text: str) -> StructType:
        """Always `value STRING`."""
        return TEXT_SCHEMA

    def type_name(self, schema_text: str) -> str:
        raise UnsupportedOperationError("a text table has no schema in the registry; use format avro or json")

    def decoder(
        self,
        reader_schema: StructType,
        table_schema_text: str | None = None,
        resolve: Resolve | None = None,
        settings: Settings = NO_SETTINGS,
    ) -> Decoder:
        return _TextDecoder(reader_schema)

    def encoder(
        self,
        schema: StructType,
        schema_text: str | None = None,
        encoding_id: int | None = None,
        codec: str = "",
        settings: Settings = NO_SETTINGS,
    ) -> Encoder:
        """Writes the only column. Neither header nor codec is possible."""
        if encoding_id is not None or codec not in ("", "none"):
            raise UnsupportedOperationError(
                "text events have neither registry header nor codec; use format avro or json, or leave 'codec' out"
            )
        return _TextEncoder(schema)


def _check_one_string_column(schema: StructType) -> None:
    if len(schema) == 1 and isinstance(schema[0].dataType, StringType):
        return
    found = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema) or "none"
    raise UnsupportedTypeError(
        f"a text table has exactly one column, of type STRING, but these were given: {found}; use format csv, avro or "
        "json for others"
    )


class _TextDecoder:
    def __init__(self, reader_schema: StructType) -> None:
        if len(reader_schema) > 0:
            _check_one_string_column(reader_schema)
        self.schema = arrow_schema(reader_schema)

    def decode(self, events: EventBuffer) -> pa.RecordBatch:
        batch, bad = self.decode_valid(events)
        if bad:
            raise bad[0]
        return batch

    def decode_valid(self, events: EventBuffer) -> tuple[pa.RecordBatch, list[BadEvent]]:
        if len(self.schema) == 0:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(events), pa.struct([]))), []
        payloads = events.to_arrow()
        try:
            return pa.RecordBatch.from_arrays([payloads.cast(pa.string())], schema=self.schema), []
        except pa.ArrowInvalid:
            pass  # One of them is not UTF-8; which one is found below.
        texts: list[str] = []
        bad = []
        for index, payload in enumerate(events.payloads()):
            try:
                texts.append(payload.decode())
            except UnicodeDecodeError as error:
                bad.append(BadEvent(index, f"it is not UTF-8 text (byte {error.start})"))
        return pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], schema=self.schema), bad


class _TextEncoder:
    def __init__(self, schema: StructType) -> None:
        _check_one_string_column(schema)
        self._name = schema[0].name

    def encode(self, batch: pa.RecordBatch) -> pa.LargeBinaryArray:
        column = batch.column(0)
        if column.null_count:
            row = pc.index(column.is_null(), True).as_py()
            raise InvalidRowError(
                f"row {row} of the batch has no value in column '{self._name}': "
                "an event cannot be null; filter such rows out"
            )
        return column.cast(pa.large_string()).cast(pa.large_binary())
