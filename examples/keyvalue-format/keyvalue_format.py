"""Reads and writes events that are `name=value` pairs between semicolons, such as `id=7;temp=21.5`.

Columns are matched by name. Values become their types by Arrow's rules; a missing one is null.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType

from pyspark_pravega.errors import InvalidRowError, InvalidSchemaError, UnsupportedTypeError
from pyspark_pravega.formats import BadEvent, Decoder, Encoder, EventBuffer, Layout, Resolve


class KeyValueFormat:
    """The format: what the entry point names."""

    name = "keyvalue"
    registry_format = None  # the schema registry has nothing to do with it: the columns are kept with the stream

    def schema_text(self, layout: Layout, name: str, namespace: str, comment: str | None = None) -> str:
        """Return the text that is kept with the stream; `spark_schema` gives back the same columns."""
        for field in layout.columns:
            if isinstance(field.dataType, (StructType, ArrayType, MapType, BinaryType)):
                raise UnsupportedTypeError(f"column '{field.name}' is not a plain value, which format keyvalue needs")
        return json.dumps(layout.columns.jsonValue())

    def spark_schema(self, schema_text: str) -> StructType:
        return StructType.fromJson(json.loads(schema_text))

    def type_name(self, schema_text: str) -> str:
        raise InvalidSchemaError("keyvalue events have no type")  # asked only of formats of the registry

    def decoder(self, layout: Layout, resolve: Resolve | None = None) -> Decoder:
        """Make a decoder of the columns that a query needs, which are those of the layout."""
        return KeyValueDecoder(layout.columns)

    def encoder(self, layout: Layout, encoding_id: int | None = None, codec: str = "") -> Encoder:
        """Make an encoder of rows with these columns."""
        return KeyValueEncoder(layout.columns)


class KeyValueDecoder:
    """Reads events as rows."""

    def __init__(self, reader_schema: StructType) -> None:
        self.schema: pa.Schema = to_arrow_schema(reader_schema, timezone="UTC")

    def decode(self, events: EventBuffer) -> pa.RecordBatch:
        """Return one row per event. Raises BadEvent for the first bad event."""
        batch, bad = self.decode_valid(events)
        if bad:
            raise bad[0]
        return batch

    def decode_valid(self, events: EventBuffer) -> tuple[pa.RecordBatch, list[BadEvent]]:
        """Return the rows of the good events, and the bad events. No event touches another."""
        rows, bad = [], []
        for index, payload in enumerate(events.payloads()):
            try:
                rows.append(self._row(payload))
            except ValueError as error:
                bad.append(BadEvent(index, f"it is not a keyvalue event: {error}"))
        return pa.RecordBatch.from_pylist(rows, schema=self.schema), bad

    def _row(self, payload: bytes) -> dict[str, Any]:
        pairs = [pair.partition("=") for pair in payload.decode().split(";") if pair]
        if any(sign != "=" for _, sign, _ in pairs):
            raise ValueError("a value without name")
        values = {name: text for name, _, text in pairs}
        return {
            field.name: pa.scalar(values[field.name]).cast(field.type).as_py() if field.name in values else None
            for field in self.schema
        }


class KeyValueEncoder:
    """Writes rows as events."""

    def __init__(self, schema: StructType) -> None:
        self._names = schema.fieldNames()

    def encode(self, batch: pa.RecordBatch) -> pa.LargeBinaryArray:
        """Return one payload per row."""
        columns = [column.cast(pa.string()).to_pylist() for column in batch.columns]
        payloads = []
        for row in range(batch.num_rows):
            values = {name: column[row] for name, column in zip(self._names, columns, strict=True)}
            for name, text in values.items():
                if text is not None and ";" in text:
                    raise InvalidRowError(
                        f"row {row} of the batch cannot be written: column '{name}' holds a semicolon"
                    )
            payloads.append(";".join(f"{name}={text}" for name, text in values.items() if text is not None).encode())
        return pc.cast(pa.array(payloads, pa.binary()), pa.large_binary())
