"""The Avro format: one binary datum per event, without container, read by the schema it was written with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from pyspark_pravega.errors import InvalidSchemaError

from ..core.arrow_types import replace_char_types
from ..core.batches import BatchDecoder, PayloadReader, read_each
from ..core.columns import Problems, StructColumn
from ..core.edited_columns import EditedColumn
from ..core.events import EventBuffer
from ..core.format import NO_SETTINGS, Decoder, Encoder, Layout, Resolve, Settings, WriterSchema
from ..core.spark_types import ROOT_COLUMN
from ..native import choose_reader
from . import schema_model as avro
from .binary import Reader, read_whole
from .edited_schema import edit_avro, find_former_names
from .native_plan import plan_column
from .schema_resolution import link_records
from .schema_to_spark import convert_avro_to_spark
from .spark_to_schema import convert_spark_to_avro, read_timestamp_unit
from .writing import AvroEncoder


def _has_value(node: Any) -> bool:
    """Return whether a part of a schema has a default other than null, or a former name."""
    if isinstance(node, dict):
        return node.get("default") is not None or bool(node.get("aliases")) or any(map(_has_value, node.values()))
    return isinstance(node, list) and any(map(_has_value, node))


class AvroFormat:
    """The format of events that are Avro data, with or without a schema in the registry."""

    name = "avro"
    registry_format = "Avro"
    changes = False
    any_keys = False
    """Whether maps may have keys that are not strings."""

    def schema_text(self, layout: Layout, name: str, namespace: str, comment: str | None = None) -> str:
        unit = read_timestamp_unit(layout.settings)
        return convert_spark_to_avro(layout.columns, name, namespace, comment, timestamps=unit, any_keys=self.any_keys)

    def spark_schema(self, schema_text: str) -> StructType:
        return convert_avro_to_spark(schema_text)

    def edited_text(
        self, schema_text: str, columns: Sequence[EditedColumn], revision: int | None, settings: Settings = NO_SETTINGS
    ) -> str:
        return edit_avro(schema_text, columns, revision, read_timestamp_unit(settings))

    def former_names(self, schema_text: str) -> Mapping[tuple[str, ...], Sequence[str]]:
        return find_former_names(schema_text)

    def can_be_missing(self, schema_text: str, column: str) -> bool:
        """Return whether a column, and each field in it, is null in events without it: no default, no former name."""
        root = json.loads(schema_text)
        fields = root.get("fields", ()) if isinstance(root, dict) else ()
        field: Mapping[str, Any] = next((one for one in fields if one["name"] == column), {})
        return not _has_value(field)

    def type_name(self, schema_text: str) -> str:
        """Return the full name of the root's type; for a root without a name, the name of its kind."""
        root = avro.parse_avro(schema_text)
        if isinstance(root, avro.Named | avro.Primitive):
            return root.name
        return type(root).__name__.lower()

    def decoder(self, layout: Layout, resolve: Resolve | None = None) -> Decoder:
        return AvroDecoder(layout, resolve)

    def encoder(self, layout: Layout, encoding_id: int | None = None, codec: str = "") -> Encoder:
        return AvroEncoder(layout.columns, layout.schema_text or _make_own_text(layout), encoding_id, codec)


def _make_own_text(layout: Layout) -> str:
    """Return the schema of events whose table keeps none."""
    return convert_spark_to_avro(layout.columns, ANY_NAME, "", timestamps=read_timestamp_unit(layout.settings))


ANY_NAME = "any_record"
"""The name of a table's record that reads records of all names: columns were declared for events of other programs."""


class AvroDecoder(BatchDecoder):
    """Reads events of any writer's schema with the table's schema, by the rules of schema resolution.

    A writer's record must have the name of the table's (without namespace), or one of its aliases:
    otherwise events of another type in the same stream would become rows of nulls.
    """

    format_name = "Avro"

    def __init__(self, layout: Layout, resolve: Resolve | None = None) -> None:
        super().__init__(layout.columns, resolve)
        struct = replace_char_types(layout.columns)
        self._struct = struct
        # Without columns there is no schema to resolve with.
        if not layout.schema_text and not struct.fields:
            raise InvalidSchemaError("without any column, events can only be read with the table's schema text")
        self._table = avro.parse_avro(layout.schema_text or _make_own_text(layout))
        self._any_name = isinstance(self._table, avro.Record) and self._table.simple_name == ANY_NAME

    def reader_of(self, writer: WriterSchema | None) -> PayloadReader:
        node = self._table if writer is None else avro.parse_avro(writer.schema_text)
        if not isinstance(self._table, avro.Record):
            name = self._struct.names[0] if self._struct.names else ROOT_COLUMN
            return self._make_reader(avro.enclose(node, name), avro.enclose(self._table, name))
        if not isinstance(node, avro.Record):
            raise InvalidSchemaError("it is not a record, unlike the table's schema")
        if not self._any_name and not self._table.has_name_of(node):
            raise InvalidSchemaError(f"it is of type '{node.name}', but the table is of type '{self._table.name}'")
        return self._make_reader(node, self._table)

    def _make_reader(self, writer: avro.Record, table: avro.Record) -> PayloadReader:
        read, columns = link_records(writer, table, self._struct, "")

        def make_native(module: Any) -> Any:
            return module.Decoder.avro(*plan_column(writer, columns, False), [])

        return choose_reader(_RecordReader(read, columns), make_native, writer.name or "an Avro value")


class _RecordReader(PayloadReader):
    def __init__(self, reader: Reader, columns: StructColumn) -> None:
        self._reader = reader
        self._columns = columns

    def arrays(self, payloads: EventBuffer, padded: bool, problems: Problems) -> list[pa.Array]:
        bad: Sequence[None] = [None] * self._columns.width
        rows = read_each(payloads, lambda payload: read_whole(self._reader, payload, padded), problems, bad)
        return self._columns.children(rows, np.arange(len(rows)), problems)
