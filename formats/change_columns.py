"""Parsed changes -> the columns of the changelog, whatever format they were parsed from.

A parser gives the changes of some events as lists, one item per event (`Changes`); changes of the same `source_kind`
are encoded alike, and their columns are built together.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    IntegralType,
    MapType,
    StringType,
    StructType,
)

from pyspark_pravega.formats.change_feed import POSITION_TYPE, utf8
from pyspark_pravega.formats.change_positions import NO_POSITION, position_of
from pyspark_pravega.formats.columns import Problems, Rows, StructColumn
from pyspark_pravega.formats.connect_schema import FieldSchema
from pyspark_pravega.formats.debezium_settings import Rules
from pyspark_pravega.formats.debezium_values import image_column
from pyspark_pravega.formats.json_values import FIRST_MICROS, LAST_MICROS, json_text
from pyspark_pravega.formats.schema.arrow import arrow_schema, strings_for_char_types

_IMAGES = ("before", "after")


@dataclass
class Changes:
    """What some events say, one item per event; all None for an event that changes no row.

    `operations` are letters of OPERATIONS, images are objects by column, `times` are microseconds since 1970.
    """

    operations: list[str | None] = field(default_factory=list)
    before: list[dict[str, Any] | None] = field(default_factory=list)
    after: list[dict[str, Any] | None] = field(default_factory=list)
    sources: list[Mapping[str, Any] | None] = field(default_factory=list)
    times: list[int | None] = field(default_factory=list)
    source_kinds: list[Hashable] = field(default_factory=list)

    def add(
        self,
        operation: str | None = None,
        before: dict[str, Any] | None = None,
        after: dict[str, Any] | None = None,
        source: Mapping[str, Any] | None = None,
        time: int | None = None,
        source_kind: Hashable = None,
    ) -> None:
        """Add the change of the next event."""
        self.operations.append(operation)
        self.before.append(before)
        self.after.append(after)
        self.sources.append(source)
        self.times.append(time)
        self.source_kinds.append(source_kind)


@dataclass(frozen=True)
class SourceEncoding:
    """How the changes of one kind of source are encoded: the schemas of both images, if known, and the rules else."""

    before: FieldSchema | None
    after: FieldSchema | None
    rules: Rules


class ChangeColumns:
    """Builds the wanted columns of `changelog_schema`."""

    def __init__(
        self,
        wanted: StructType,
        table: StructType | None,
        placeholder: str,
        encoding_of: Callable[[Hashable], SourceEncoding],
    ) -> None:
        """`table`: all columns of the table, if known; `encoding_of` tells a source kind's encoding."""
        struct = strings_for_char_types(wanted)
        assert isinstance(struct, StructType)
        self._struct = struct
        self._schema = arrow_schema(struct)
        self._encoding_of = encoding_of
        self._images: dict[tuple[str, Hashable], StructColumn] = {}
        after = next((each.dataType for each in struct.fields if each.name == "after"), None)
        assert after is None or isinstance(after, StructType)
        columns = table if table is not None else after
        self._placeholders = _placeholders(columns, placeholder) if columns is not None else {}
        self._read = set(struct.fieldNames())

    @property
    def wants_numbers(self) -> bool:
        """Whether the exact digits of numbers matter in some column."""
        return any(_exact_numbers(each.dataType) for each in self._struct.fields if each.name in _IMAGES)

    def arrays(self, changes: Changes, problems: Problems, unavailable: bool) -> list[pa.Array]:
        """One array per wanted column. `unavailable`: whether some value may be the placeholder."""
        rows = np.arange(len(changes.operations))
        missing: list[list[str]] | None = None
        if unavailable and self._read & {"after", "unavailable"}:
            missing = self._take_placeholders(changes)
        arrays = []
        for spark_field, arrow_field in zip(self._struct.fields, self._schema, strict=True):
            name = spark_field.name
            if name in _IMAGES:
                assert isinstance(spark_field.dataType, StructType)
                images = changes.before if name == "before" else changes.after
                arrays.append(self._image(name, spark_field.dataType, images, changes.source_kinds, rows, problems))
            elif name == "op":
                arrays.append(pa.array(changes.operations, pa.string()))
            elif name == "ts":
                arrays.append(_timestamps(changes.times))
            elif name == "source":
                arrays.append(_texts(changes.sources, arrow_field.type))
            elif name == "unavailable":
                lists: Sequence[list[str] | None] = missing or [[] for _ in changes.operations]
                there = zip(lists, changes.operations, strict=True)
                arrays.append(pa.array([each if op is not None else None for each, op in there], arrow_field.type))
            else:
                arrays.append(_positions(changes.sources, arrow_field.type))
        return arrays

    def _take_placeholders(self, changes: Changes) -> list[list[str]]:
        """The columns without value in each `after`; None takes the place of the placeholder there."""
        missing: list[list[str]] = [[] for _ in changes.after]
        for column, candidates in self._placeholders.items():
            for row, image in enumerate(changes.after):
                if image is not None and image.get(column) in candidates:
                    image[column] = None
                    missing[row].append(column)
        return missing

    def _image(
        self,
        name: str,
        struct: StructType,
        images: Sequence[Any],
        kinds: Sequence[Hashable],
        rows: Rows,
        problems: Problems,
    ) -> pa.Array:
        distinct = set(kinds)
        distinct.discard(None)  # events that change no row
        if len(distinct) <= 1:
            kind = next(iter(distinct), None)
            return self._column(name, struct, kind).build(images, rows, problems)
        parts, places = [], []
        for kind in [*distinct, None]:
            here = np.flatnonzero([each == kind for each in kinds])
            chosen = [images[place] for place in here.tolist()]
            parts.append(self._column(name, struct, kind).build(chosen, rows[here], problems))
            places.append(here)
        order = np.argsort(np.concatenate(places), kind="stable")
        return pa.concat_arrays(parts).take(pa.array(order))

    def _column(self, name: str, struct: StructType, kind: Hashable) -> StructColumn:
        found = self._images.get((name, kind))
        if found is None:
            encoding = self._encoding_of(kind)
            schema = encoding.before if name == "before" else encoding.after
            found = self._images[(name, kind)] = image_column(struct, name, schema, encoding.rules)
        return found


def _placeholders(columns: StructType, placeholder: str) -> dict[str, list[Any]]:
    """What stands for a value that was not sent, by column, as it is after parsing."""
    raw = utf8(placeholder)
    coded = base64.b64encode(raw).decode("ascii")
    codes = [ord(character) for character in placeholder]
    found: dict[str, list[Any]] = {}
    for each in columns.fields:
        if isinstance(each.dataType, ArrayType):
            found[each.name] = [[placeholder], codes, [coded], [raw], list(raw)]
        elif isinstance(each.dataType, MapType):
            found[each.name] = [placeholder, {placeholder: placeholder}]
        elif isinstance(each.dataType, StringType | BinaryType | DecimalType | StructType):
            found[each.name] = [placeholder, coded, raw]
    return found


def may_hold_placeholder(data: bytes | memoryview, placeholder: str, *, bare: bool) -> bool:
    """Whether some bytes, JSON or (`bare`) Avro, can hold the placeholder in any of its forms.

    False is certain. Arrays of character codes look too different to be found so: look for `codes_possible`.
    """
    text = bytes(data)
    raw = utf8(placeholder)
    if raw in text or (not bare and base64.b64encode(raw) in text):
        return True
    return not bare and not placeholder.isalnum() and not placeholder.replace("_", "").isalnum()


def codes_possible(columns: StructType | None) -> bool:
    """Whether a table has arrays of numbers, where the placeholder is its characters' codes."""
    return columns is None or any(
        isinstance(each.dataType, ArrayType) and isinstance(each.dataType.elementType, IntegralType)
        for each in columns.fields
    )


def _exact_numbers(data_type: DataType) -> bool:
    if isinstance(data_type, StructType):
        return any(_exact_numbers(each.dataType) for each in data_type.fields)
    if isinstance(data_type, ArrayType):
        return _exact_numbers(data_type.elementType)
    if isinstance(data_type, MapType):
        return _exact_numbers(data_type.valueType)
    return isinstance(data_type, StringType | DecimalType)


def _timestamps(micros: Sequence[int | None]) -> pa.Array:
    safe = [each if each is not None and FIRST_MICROS <= each <= LAST_MICROS else None for each in micros]
    return pa.array(safe, pa.int64()).view(pa.timestamp("us", "UTC"))


def _texts(sources: Sequence[Mapping[str, Any] | None], arrow_type: pa.DataType) -> pa.Array:
    items = [
        None if source is None else [(_clean(key), _shown(value)) for key, value in source.items()]
        for source in sources
    ]
    return pa.array(items, arrow_type)


def _shown(value: Any) -> str | None:
    if value is None:
        return None
    return _clean(value if type(value) is str else json_text(value))


def _clean(text: str) -> str:
    return text if text.isascii() else utf8(text).decode()


def _positions(sources: Sequence[Mapping[str, Any] | None], wanted: pa.StructType) -> pa.Array:
    found = [position_of(source) if source is not None else NO_POSITION for source in sources]
    columns = list(zip(*found, strict=True)) if found else [()] * len(POSITION_TYPE)
    arrays = {
        each.name: _timestamps(column) if each.name == "time" else pa.array(column, each.type)
        for each, column in zip(POSITION_TYPE, columns, strict=True)
    }
    chosen = [arrays[each.name] for each in wanted]
    absent = pa.array([source is None for source in sources], pa.bool_())
    return pa.StructArray.from_arrays(chosen, fields=list(wanted), mask=absent)
