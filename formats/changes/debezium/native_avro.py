"""Reads Debezium's envelopes with the native decoder of Avro, and with the reference where that cannot.

A schema is planned by name: `op`, the images, `source` and the times are read, and the rest is skipped. The images may
have the types that connectors write most, each in the columns that read it alike; with any other, the reference reads
all events of the schema. An event goes to the reference if it is not a plain change, may contain the placeholder for
unavailable values, or is not accepted by the native decoder.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import DataType, StructType

from pyspark_pravega import native

from ...avro import schema_model as avro
from ...avro.native_plan import plan_skipping
from ...core.arrow_types import find_arrow_type, make_array, replace_char_types
from ...core.batches import PayloadReader
from ...core.columns import Problems
from ...core.events import EventBuffer, EventPositions
from ...core.scalars import FIRST_DAY, FIRST_MICROS, LAST_DAY, LAST_MICROS
from ...native import NATIVE_PIECE_BYTES, NATIVE_PIECE_EVENTS, Spec, Unplanned, merge_with_reference
from ..encodings.kafka_connect_schema import FieldSchema
from ..encodings.matrix import Reading, Target, find_reading, find_target
from ..encodings.semantic_types import Semantic, find_semantic, find_unit
from ..encodings.times import limit_to_range
from ..envelope_columns import EnvelopeColumns, find_plain
from ..placeholders import PlaceholderSearch
from .avro_writers import Writer, WriterSearch

_log = logging.getLogger(__name__)

_Plan = tuple[Spec, Spec]
"""A column, and how its values are read."""
_Finish = Callable[[pa.Array], pa.Array]
"""Makes a column of the values that were read."""
_LARGEST_SCALE = 100


class AvroEnvelopeReader(PayloadReader):
    """The reference reader, with what the native reader needs."""

    search: PlaceholderSearch

    @abstractmethod
    def is_misnamed(self, writer: Writer) -> bool:
        """Return whether changes of this schema name the table's columns in another case."""


def make_native_reader(reference: AvroEnvelopeReader, find: WriterSearch, schema: StructType) -> PayloadReader:
    """Return a native reader of the same columns, or the reference if there is none."""
    module = native.get_module()
    if module is None:
        return reference
    try:
        return NativeAvroReader(module, reference, find, schema)
    except Unplanned as reason:
        _log.info("Debezium's events are decoded in Python: %s", reason)
        return reference


class NativeAvroReader(PayloadReader):
    """Reads envelopes natively, those of each schema together."""

    piece_events, piece_bytes = NATIVE_PIECE_EVENTS, NATIVE_PIECE_BYTES

    def __init__(self, module: Any, reference: AvroEnvelopeReader, find: WriterSearch, schema: StructType) -> None:
        """Take the wanted columns. Raises Unplanned for columns that only the reference can make."""
        self._module = module
        self._reference = reference
        self._find = find
        self._columns = EnvelopeColumns(reference, schema)
        struct = replace_char_types(schema)
        self._images = {field.name: field.dataType for field in struct if field.name in ("before", "after")}
        self._envelopes: dict[int, tuple[Writer, _Envelope | None]] = {}

    def arrays(self, payloads: EventBuffer, padded: bool, problems: Problems) -> list[pa.Array]:
        parts: list[list[pa.Array]] = []
        places: list[EventPositions] = []
        for writer, here, header in self._find.groups(payloads):
            envelope = self._envelope(writer)
            if envelope is not None:
                group = payloads if len(here) == len(payloads) else payloads.take(here)
                columns, chosen = self._read(envelope, group.skip_first(header), padded)
                parts.append(columns)
                places.append(here[chosen])
        if not parts:
            return self._reference.arrays(payloads, padded, problems)
        arrays = parts[0]
        if len(parts) > 1:
            order = make_array(np.argsort(np.concatenate(places), kind="stable"))
            arrays = [pa.concat_arrays(column).take(order) for column in zip(*parts, strict=True)]
        is_read = np.zeros(len(payloads), np.bool_)
        is_read[np.concatenate(places)] = True
        rest: EventPositions = np.flatnonzero(~is_read)
        if not len(rest):
            return arrays
        return merge_with_reference(arrays, rest, self._reference, payloads, padded, problems)

    def _read(self, envelope: _Envelope, events: EventBuffer, padded: bool) -> tuple[list[pa.Array], EventPositions]:
        """Return the columns of the events that can be read, and their places."""
        batch, unread = envelope.decoder.decode(*events.octets(), padded)
        is_read = np.ones(len(events), np.bool_)
        if unread is not None:
            is_read[np.frombuffer(unread, np.int64)] = False
        read = np.flatnonzero(is_read)
        rows = pa.record_batch(batch)
        is_read[read[~find_plain(rows)]] = False
        is_read[self._reference.search.find_others(events)] = False
        chosen = is_read[read]
        if not chosen.all():
            rows = rows.take(make_array(np.flatnonzero(chosen)))
        return self._columns.make(envelope.finish(rows)), np.flatnonzero(is_read)

    def _envelope(self, writer: Writer) -> _Envelope | None:
        envelope = self._envelopes.get(id(writer))
        if envelope is None:
            envelope = self._envelopes[id(writer)] = writer, self._make_envelope(writer)
        return envelope[1]

    def _make_envelope(self, writer: Writer) -> _Envelope | None:
        if self._reference.is_misnamed(writer):
            return None  # the reference reports it
        try:
            make = partial(self._module.Decoder.avro, refused=list(self._reference.search.texts))
            envelope = _Envelope(make, writer, self._images, self._columns.source)
            batch, _ = envelope.decoder.decode(*EventBuffer.of([]).octets(), False)
            self._columns.check(envelope.finish(pa.record_batch(batch)))
        except (Unplanned, ValueError) as reason:
            _log.info("Debezium's events of a schema are decoded in Python: %s", reason)
            return None
        return envelope


class _Envelope:
    """The native `decoder` of one schema, and what makes the images of its columns."""

    def __init__(
        self, make: Callable[[Spec, Spec], Any], writer: Writer, images: Mapping[str, DataType], source: pa.StructType
    ) -> None:
        """Take what makes a decoder of a column and the plan of its writer's record. Raises Unplanned."""
        if not isinstance(writer.node, avro.Record):
            raise Unplanned("its schema is not a record")
        self._finish: dict[str, dict[str, _Finish]] = {"before": {}, "after": {}}
        schemas = {"before": writer.before, "after": writer.after}
        members: dict[str, _Member] = {"op": _Member(pa.string(), _plan_text)}
        for name, schema in schemas.items():
            image = images.get(name, StructType([]))
            assert isinstance(image, StructType)
            plan_image = partial(_plan_image, image, schema, self._finish[name])
            members[name] = _Member(find_arrow_type(image), plan_image)
        members["source"] = _Member(
            source, partial(_plan_record, {f.name: _make_source_member(f) for f in source}, True)
        )
        members |= {name: _Member(pa.int64(), _plan_whole) for name in ("ts_ms", "ts_us")}
        spec, plan = _plan_record(members, False, writer.node)
        self.decoder = make(spec, plan)

    def finish(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return envelopes whose images have the values of their columns."""
        for name, members in self._finish.items():
            if members:
                image = rows.column(name)
                columns = {field.name: image.field(number) for number, field in enumerate(image.type)}
                columns |= {member: finish(columns[member]) for member, finish in members.items()}
                image_array = pa.StructArray.from_arrays([*columns.values()], names=[*columns], mask=image.is_null())
                rows = rows.set_column(rows.schema.get_field_index(name), name, image_array)
        return rows


class _Member:
    """A field of a record: the type of its column, and how values of a writer's type are planned."""

    def __init__(self, column: pa.DataType, plan: Callable[[avro.Node], _Plan]) -> None:
        self.column = column
        self.plan = plan


def _plan_record(members: Mapping[str, _Member], nullable: bool, writer: avro.Node) -> _Plan:
    """Plan a struct by the names of its members; those that the writer lacks are null."""
    if not isinstance(writer, avro.Record):
        raise Unplanned("a part of the envelope is not a record")
    specs: dict[str, Spec] = {}
    steps: list[tuple[int | None, Spec]] = []
    names = list(members)
    for field in writer.fields:
        if field.name in members:
            specs[field.name], plan = _plan_nullable(members[field.name].plan, field.type)
            steps.append((names.index(field.name), plan))
        else:
            steps.append((None, plan_skipping(field.type)))
    absent = [name for name in names if name not in specs]
    specs |= {name: ("constant", kind, True, pa.nulls(1, kind)) for name in absent for kind in [members[name].column]}
    struct = pa.struct([pa.field(name, specs[name][1], True) for name in names])
    spec = ("struct", struct, nullable, names, [specs[name] for name in names])
    return spec, ("record", steps, [names.index(name) for name in absent])


def _plan_nullable(plan: Callable[[avro.Node], _Plan], writer: avro.Node) -> _Plan:
    if not isinstance(writer, avro.Union):
        return plan(writer)
    if len(writer.branches) != 2 or not writer.nullable:
        raise Unplanned("a field was written as a union of several types")
    null_branch = next(number for number, branch in enumerate(writer.branches) if avro.is_null(branch))
    spec, inner = plan(writer.branches[1 - null_branch])
    return spec, ("nullable", null_branch, inner)


def _make_source_member(field: pa.Field) -> _Member:
    return _Member(field.type, _plan_text if pa.types.is_string(field.type) else _plan_whole)


def _plan_text(writer: avro.Node) -> _Plan:
    return _plan_leaf(pa.string(), writer, {"string": "bytes"})


def _plan_whole(writer: avro.Node) -> _Plan:
    return _plan_leaf(pa.int64(), writer, {"int": "int", "long": "long"})


def _plan_leaf(column: pa.DataType, writer: avro.Node, ways: Mapping[str, str]) -> _Plan:
    """Plan a column of a primitive type; `ways` says how each is read."""
    name = writer.name if isinstance(writer, avro.Primitive) else ""
    if name not in ways:
        raise Unplanned(f"a field was written as {name or 'another type'}, which a column of type {column} cannot hold")
    return ("leaf", column, True), (ways[name],)


def _plan_image(image: StructType, schema: FieldSchema | None, finish: dict[str, _Finish], writer: avro.Node) -> _Plan:
    """Plan a row's image, and note what makes its columns."""
    fields = schema.fields if schema is not None else {}
    members = {}
    for field in image.fields:
        column = find_arrow_type(field.dataType)
        plan = partial(_plan_value, field.dataType, fields.get(field.name))
        members[field.name] = _Member(column, plan)
        make_finish = _FINISHES.get(column if not pa.types.is_timestamp(column) else pa.timestamp("us"))
        if make_finish is not None:
            finish[field.name] = make_finish
    return _plan_record(members, True, writer)


def _plan_value(data_type: DataType, schema: FieldSchema | None, writer: avro.Node) -> _Plan:
    """Plan a value of an image, if the native decoder gives what `encodings.values` does."""
    column, target = find_arrow_type(data_type), find_target(data_type)
    if schema is None or target is None:
        raise Unplanned("an image has a field of an unknown type")
    reading = find_reading(schema, target)
    match target, reading:
        case Target.WHOLE, Reading.NUMBER:
            return _plan_leaf(column, writer, {"int": "int", "long": "long"})
        case Target.FLOATING, Reading.NUMBER:
            single = pa.types.is_float32(column)
            return _plan_leaf(column, writer, {"float": "float"} if single else {"float": "float", "double": "double"})
        case Target.BOOLEAN, Reading.FLAG:
            return _plan_leaf(column, writer, {"boolean": "boolean"})
        case Target.STRING, Reading.TEXT:
            return _plan_leaf(column, writer, {"string": "bytes"})
        case Target.BINARY, Reading.BYTES:
            return _plan_leaf(column, writer, {"bytes": "bytes"})
        case Target.DATE, Reading.DAYS if find_semantic(schema) is Semantic.DATE:
            return _plan_leaf(column, writer, {"int": "int", "long": "long"})
        case Target.TIMESTAMP, Reading.MOMENT if find_unit(schema) == "us":
            return _plan_leaf(column, writer, {"int": "int", "long": "long"})
        case Target.TIMESTAMP, Reading.MOMENT if find_unit(schema) == "ms":
            spec, (kind,) = _plan_leaf(column, writer, {"int": "int", "long": "long"})
            return spec, ("millis", kind == "int")
        case Target.DECIMAL, Reading.DIGITS if find_semantic(schema) is Semantic.DECIMAL:
            if abs(schema.scale) <= _LARGEST_SCALE and schema.kind == "bytes":
                size = writer.size if isinstance(writer, avro.Fixed) else None
                return ("leaf", column, True), ("decimal", size, schema.scale)
    raise Unplanned(f"a column of type {data_type.simpleString()} is read from {schema.name or schema.kind}")


def _limit_days(days: pa.Array) -> pa.Array:
    return limit_to_range(days.view(pa.int32()), FIRST_DAY, LAST_DAY).view(days.type)


def _limit_moments(moments: pa.Array) -> pa.Array:
    return limit_to_range(moments.view(pa.int64()), FIRST_MICROS, LAST_MICROS).view(moments.type)


_FINISHES: Mapping[pa.DataType, _Finish] = {pa.date32(): _limit_days, pa.timestamp("us"): _limit_moments}
"""Dates and timestamps that Spark has no value for are null."""
