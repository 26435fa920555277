"""A format of changes that another distribution brings: events such as `+1=a` (row 1 is now `a`) and `-1=a` (gone)."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pyspark_pravega.formats import BadEvent, EventBuffer, Layout


class CapturedFormat:
    name = "captured"
    registry_format = None
    changes = True

    def schema_text(self, layout: Layout, name: str, namespace: str, comment: Any = None) -> str:
        return layout.columns.json()

    def spark_schema(self, schema_text: str) -> StructType:
        return StructType.fromJson(json.loads(schema_text))

    def type_name(self, schema_text: str) -> str:
        raise NotImplementedError

    def decoder(self, layout: Layout, resolve: Any = None) -> Decoder:
        return Decoder(layout.columns)

    def encoder(self, layout: Layout, encoding_id: Any = None, codec: str = "") -> Encoder:
        return Encoder()

    def infer_columns(self, events: Any, settings: Any) -> StructType | None:
        return None

    def truncate_candidates(self, events: EventBuffer) -> Any:
        return EventBuffer.of([]).starts


class Decoder:
    def __init__(self, reader_schema: StructType) -> None:
        self.schema: pa.Schema = to_arrow_schema(reader_schema, timezone="UTC")

    def decode(self, events: EventBuffer) -> pa.RecordBatch:
        batch, bad = self.decode_valid(events)
        if bad:
            raise bad[0]
        return batch

    def decode_valid(self, events: EventBuffer) -> tuple[pa.RecordBatch, list[BadEvent]]:
        rows, bad = [], []
        for index, payload in enumerate(events.payloads()):
            key, sign, value = payload[1:].decode().partition("=")
            if payload[:1] not in (b"+", b"-") or not sign:
                bad.append(BadEvent(index, "it begins with no sign"))
                continue
            row = {"id": int(key), "v": value}
            image = ("u", None, row) if payload[:1] == b"+" else ("d", row, None)
            change = dict(zip(("op", "before", "after"), image, strict=True))
            rows.append({field.name: _cut(change.get(field.name), field.type) for field in self.schema})
        return pa.RecordBatch.from_pylist(rows, schema=self.schema), bad


def _cut(value: Any, data_type: pa.DataType) -> Any:
    if not isinstance(value, dict):
        return value
    return {field.name: value.get(field.name) for field in data_type}


class Encoder:
    def encode(self, batch: pa.RecordBatch) -> pa.LargeBinaryArray:
        texts = [f"+{row['id']}={row['v']}".encode() for row in batch.to_pylist()]
        return pc.cast(pa.array(texts, pa.binary()), pa.large_binary())
