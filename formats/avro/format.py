"""The Avro format: one binary datum per event, without container, read by the schema it was written with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from pyspark_pravega.errors import InvalidSchemaError

from ..core.arrow_types import replace_char_types
from ..core.batches import BatchDecoder, PayloadReader
from ..core.columns import Column, Problems, StructColumn, require_values
from ..core.edited_columns import EditedColumn
from ..core.events import EventBuffer
from ..core.format import NO_SETTINGS, Decoder, Encoder, Layout, Resolve, Settings, WriterSchema
from ..core.framing import Undecodable
from ..native import NO_COLUMNS, choose_reader, plan_avro, wrap_column
from . import schema_model as avro
from .binary import Reader, make_skipping_reader, read_whole
from .edited_schema import edit_avro, find_former_names
from .native_plan import plan_column, plan_skipped_event, plan_struct, plan_value
from .schema_resolution import link, link_records
from .schema_to_spark import convert_avro_to_spark
from .spark_to_schema import convert_spark_to_avro, read_timestamp_unit
from .writing import AvroEncoder


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
    return convert_spark_to_avro(layout.columns, "event", "", timestamps=read_timestamp_unit(layout.settings))


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
        self._any_name = not layout.schema_text
        # Without columns there is no schema to resolve with.
        if self._any_name and not struct.fields:
            raise InvalidSchemaError("without any column, events can only be read with the table's schema text")
        self._table = avro.parse_avro(layout.schema_text or _make_own_text(layout))

    def reader_of(self, writer: WriterSchema | None) -> PayloadReader:
        node = self._table if writer is None else avro.parse_avro(writer.schema_text)
        if isinstance(self._table, avro.Record):
            if not isinstance(node, avro.Record):
                raise InvalidSchemaError("it is not a record, unlike the table's schema")
            if not self._any_name and not self._table.has_name_of(node):
                raise InvalidSchemaError(f"it is of type '{node.name}', but the table is of type '{self._table.name}'")
            read, columns = link_records(node, self._table, self._struct, "")
            return choose_reader(
                _RecordReader(read, columns), lambda: plan_avro(*plan_struct(node, columns)), node.name
            )
        fields = self._struct.fields
        if not fields:
            counting = _ValueReader(make_skipping_reader(node), None, True)
            return choose_reader(counting, lambda: plan_avro(NO_COLUMNS, plan_skipped_event(node)), "an Avro value")
        read, column = link(node, self._table, fields[0].dataType, fields[0].name)

        def plan() -> Callable[[Any], Any]:
            spec, steps = plan_column(node, column, fields[0].nullable)
            return plan_avro(wrap_column(fields[0].name, spec), plan_value(steps))

        return choose_reader(_ValueReader(read, column, fields[0].nullable), plan, "an Avro value")


def _read_values(reader: Reader, payloads: EventBuffer, padded: bool, bad: Any, problems: Problems) -> list[Any]:
    """Return the payloads' values, with `bad` in place of those that cannot be read."""
    values = []
    for row, payload in enumerate(payloads.payloads()):
        try:
            values.append(read_whole(reader, payload, padded))
        except Undecodable as error:
            problems.add(row, "it is empty" if not payload else str(error))
            values.append(bad)
    return values


class _RecordReader(PayloadReader):
    def __init__(self, reader: Reader, columns: StructColumn) -> None:
        self._reader = reader
        self._columns = columns

    def arrays(self, payloads: EventBuffer, padded: bool, problems: Problems) -> list[pa.Array]:
        bad: Sequence[None] = [None] * self._columns.width
        rows = _read_values(self._reader, payloads, padded, bad, problems)
        return self._columns.children(rows, np.arange(len(rows)), problems)


class _ValueReader(PayloadReader):
    """Reads values of a root that is not a record into the only column."""

    def __init__(self, reader: Reader, column: Column | None, nullable: bool) -> None:
        self._reader = reader
        self._column = column
        self._nullable = nullable

    def arrays(self, payloads: EventBuffer, padded: bool, problems: Problems) -> list[pa.Array]:
        values = _read_values(self._reader, payloads, padded, None, problems)
        if self._column is None:
            return []
        rows = np.arange(len(values))
        array = self._column.build(values, rows, problems)
        if not self._nullable:
            require_values(array, self._column, rows, problems)
        return [array]
