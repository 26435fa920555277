"""The raw format: one column `event BINARY` that is the payload, whatever it holds."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType, StructField, StructType

from pyspark_pravega.errors import InvalidRowError, UnsupportedOperationError, UnsupportedTypeError
from pyspark_pravega.formats.events import EventBuffer
from pyspark_pravega.formats.format import NO_SETTINGS, BadEvent, Decoder, Encoder, Resolve, Settings
from pyspark_pravega.formats.schema.arrow import arrow_schema

RAW_SCHEMA = StructType([StructField("event", BinaryType())])


class RawFormat:
    """Events as they are. There is no schema text: the registry has nothing to do with such a stream."""

    name = "raw"
    registry_format = None

    def schema_text(
        self,
        schema: StructType,
        name: str,
        namespace: str,
        comment: str | None = None,
        settings: Settings = NO_SETTINGS,
    ) -> str:
        """The empty text for a schema of one BINARY column; raises UnsupportedTypeError for any other."""
        _check_one_binary_column(schema)
        return ""

    def spark_schema(self, schema_text: str) -> StructType:
        """Always `event BINARY`."""
        return RAW_SCHEMA

    def type_name(self, schema_text: str) -> str:
        raise UnsupportedOperationError("a raw table has no schema in the registry; use format avro or json")

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
        if encoding_id is not None or codec not in ("", "none"):
            raise UnsupportedOperationError(
                "raw events have neither registry header nor codec; use format avro or json, or leave 'codec' out"
            )
        return _RawEncoder(schema)


def _check_one_binary_column(schema: StructType) -> None:
    if len(schema) == 1 and isinstance(schema[0].dataType, BinaryType):
        return
    found = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema) or "none"
    raise UnsupportedTypeError(
        f"a raw table has exactly one column, of type BINARY, but these were given: {found}; use format "
        "avro or json for others"
    )


class _RawDecoder:
    def __init__(self, reader_schema: StructType) -> None:
        if len(reader_schema) > 0:
            _check_one_binary_column(reader_schema)
        self.schema = arrow_schema(reader_schema)

    def decode(self, events: EventBuffer) -> pa.RecordBatch:
        if len(self.schema) == 0:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(events), pa.struct([])))
        return pa.RecordBatch.from_arrays([events.to_arrow()], schema=self.schema)

    def decode_valid(self, events: EventBuffer) -> tuple[pa.RecordBatch, list[BadEvent]]:
        return self.decode(events), []


class _RawEncoder:
    def __init__(self, schema: StructType) -> None:
        _check_one_binary_column(schema)
        self._name = schema[0].name

    def encode(self, batch: pa.RecordBatch) -> pa.LargeBinaryArray:
        column = batch.column(0)
        if column.null_count:
            row = pc.index(column.is_null(), True).as_py()
            raise InvalidRowError(
                f"row {row} of the batch has no value in column '{self._name}': "
                "an event cannot be null; filter such rows out"
            )
        return column.cast(pa.large_binary())
