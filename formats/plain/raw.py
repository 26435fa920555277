"""The raw format: one column `event BINARY` that is the payload, whatever it holds."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

from ..core.arrow_types import arrow_schema
from ..core.events import EventBuffer
from ..core.format import NO_SETTINGS, BadEvent, Decoder, Encoder, Resolve, Settings
from .one_column import check_bare, check_one_column, events_of, no_schema, without_columns

RAW_SCHEMA = StructType([StructField("event", BinaryType())])


class RawFormat:
    """Events as they are. There is no schema text: the registry has nothing to do with such a stream."""

    name = "raw"
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
        """The empty text for a schema of one BINARY column; raises UnsupportedTypeError for any other."""
        _check(schema)
        return ""

    def spark_schema(self, schema_text: str) -> StructType:
        """Always `event BINARY`."""
        return RAW_SCHEMA

    def type_name(self, schema_text: str) -> str:
        raise no_schema(self.name)

    def decoder(
        self,
        reader_schema: StructType,
        table_schema_text: str | None = None,
        resolve: Resolve | None = None,
        settings: Settings = NO_SETTINGS,
    ) -> Decoder:
        """Reads payloads without copying them more than once. `resolve` is not used: headers stay in."""
        return _RawDecoder(reader_schema)

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
        return _RawEncoder(schema)


def _check(schema: StructType) -> None:
    check_one_column(schema, BinaryType, "raw", "avro or json")


class _RawDecoder:
    def __init__(self, reader_schema: StructType) -> None:
        if len(reader_schema) > 0:
            _check(reader_schema)
        self.schema = arrow_schema(reader_schema)

    def decode(self, events: EventBuffer) -> pa.RecordBatch:
        if len(self.schema) == 0:
            return without_columns(len(events))
        return pa.RecordBatch.from_arrays([events.to_arrow()], schema=self.schema)

    def decode_valid(self, events: EventBuffer) -> tuple[pa.RecordBatch, list[BadEvent]]:
        return self.decode(events), []


class _RawEncoder:
    def __init__(self, schema: StructType) -> None:
        _check(schema)

    def encode(self, batch: pa.RecordBatch) -> pa.LargeBinaryArray:
        return events_of(batch).cast(pa.large_binary())
