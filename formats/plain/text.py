"""The text format: one column `value STRING`, the event's bytes as UTF-8."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from ..core.arrow_types import arrow_schema
from ..core.events import EventBuffer
from ..core.format import NO_SETTINGS, BadEvent, Decoder, Encoder, Resolve, Settings
from .one_column import check_bare, check_one_column, events_of, no_schema, without_columns

TEXT_SCHEMA = StructType([StructField("value", StringType())])


class TextFormat:
    """Events that are text, whatever it says. The registry has nothing to do with such a stream."""

    name = "text"
    registry_format = None
    changes = False

    def schema_text(
        self,
        schema: StructType,
        name: str,
        namespace: str,
        comment: str | None = None,
        settings: Settings = NO_SETTINGS,
    ) -> str:
        """The empty text for a schema of one STRING column; raises UnsupportedTypeError for any other."""
        _check(schema)
        return ""

    def spark_schema(self, schema_text: str) -> StructType:
        """Always `value STRING`."""
        return TEXT_SCHEMA

    def type_name(self, schema_text: str) -> str:
        raise no_schema(self.name)

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
        check_bare(self.name, encoding_id, codec)
        return _TextEncoder(schema)


def _check(schema: StructType) -> None:
    check_one_column(schema, StringType, "text", "csv, avro or json")


class _TextDecoder:
    def __init__(self, reader_schema: StructType) -> None:
        if len(reader_schema) > 0:
            _check(reader_schema)
        self.schema = arrow_schema(reader_schema)

    def decode(self, events: EventBuffer) -> pa.RecordBatch:
        batch, bad = self.decode_valid(events)
        if bad:
            raise bad[0]
        return batch

    def decode_valid(self, events: EventBuffer) -> tuple[pa.RecordBatch, list[BadEvent]]:
        if len(self.schema) == 0:
            return without_columns(len(events)), []
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
        _check(schema)

    def encode(self, batch: pa.RecordBatch) -> pa.LargeBinaryArray:
        return events_of(batch).cast(pa.large_string()).cast(pa.large_binary())
