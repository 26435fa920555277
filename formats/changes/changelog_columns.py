"""Builds the columns of the changelog from parsed changes of any format.

A parser returns a `Change` for each event. Changes from the same kind of source are encoded alike, and their columns
are built together. Names of columns may differ from the table's in case: Oracle writes `ID`, others write `id`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark.sql.types as T

from ..core.arrow_types import arrow_schema, replace_char_types, restore_order
from ..core.batches import PayloadReader, read_each
from ..core.columns import Problems, Rows, StructColumn
from ..core.events import EventBuffer
from ..core.framing import Undecodable
from ..core.scalars import FIRST_MICROS, LAST_MICROS, write_json
from ..core.spark_visitor import iterate_leaf_types
from .encodings.encoded_values import make_image_column
from .encodings.kafka_connect_schema import FieldSchema
from .encodings.settings import Rules
from .feed import MARKS, POSITION_TYPE, replace_surrogates
from .placeholders import Placeholder, PlaceholderSearch
from .source_positions import read_positions

_OF_ENVELOPES = frozenset(
    "after before change_lsn commit_lsn commit_scn commit_ts_ms connector data_collection_order db event_serial_no "
    "file gtid id lcr_position lsn name op origin pos query redo_thread row row_id rs_id schema scn sequence server_id "
    "snapshot source ssn start_scn start_ts_ms table thread total_order transaction ts_ms ts_ns ts_us txId user_name "
    "version xmin".split()
)
"""Names in Debezium's envelopes outside the rows: in an event they need not be columns."""


class LetterCase:
    """Compares the names of columns in changes with a table's, and explains names that differ only in case."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)
        self._folded = {name.lower(): name for name in names}
        self._quoted = [f'"{name}"'.encode(errors="replace") for name in self._names - _OF_ENVELOPES]

    def explain_misnamed(self, names: Iterable[str]) -> str | None:
        """Return why a row with these columns is bad: it has a column of the table only in another case; else None."""
        present = frozenset(names)
        for name in sorted(present - self._names):
            column = self._folded.get(name.lower())
            if column is not None and column not in present:
                return (
                    f"it has no column '{column}', but '{name}', and the case of names matters; name the table's "
                    f"column `{name}`, which SQL finds as {column} too"
                )
        return None

    def can_lack_all(self, payload: bytes) -> bool:
        """Return whether a JSON event, by its bytes, can be a row without any of the table's columns."""
        return not any(name in payload for name in self._quoted)

    def lacks_all(self, row: Mapping[str, Any]) -> bool:
        """Return whether a row has none of the table's columns; almost always it has one."""
        return self._names.isdisjoint(row)


IMAGES = ("before", "after")


Change = tuple[str | None, dict[str, Any] | None, dict[str, Any] | None, Mapping[str, Any] | None, int | None, Hashable]
"""An event's operation (of OPERATIONS), before, after, source block, microseconds since 1970, and kind of source."""

NO_CHANGE: Change = (None, None, None, None, None, None)
"""An event that changes no row."""


@dataclass(frozen=True)
class SourceEncoding:
    """The encoding of changes from one kind of source: by the schemas of both images, if known, else by the rules."""

    before: FieldSchema | None
    after: FieldSchema | None
    rules: Rules

    @property
    def image(self) -> FieldSchema | None:
        """Return the schema of rows; None if their events have none."""
        return self.before if self.after is None else self.after


class ChangeColumns:
    """Builds the wanted columns of `changelog_schema`."""

    def __init__(
        self,
        schema: T.StructType,
        table: T.StructType | None,
        placeholder: Placeholder,
        encoding_of: Callable[[Hashable], SourceEncoding],
    ) -> None:
        """Take the wanted columns, and the table's if known. `encoding_of` returns the encoding of a source kind."""
        struct = replace_char_types(schema)
        self._struct = struct
        self._schema = arrow_schema(struct)
        self._find_encoding = encoding_of
        self._images: dict[tuple[str, Hashable], StructColumn] = {}
        after = next((field.dataType for field in struct.fields if field.name == "after"), None)
        assert after is None or isinstance(after, T.StructType)
        columns = table if table is not None else after
        self._placeholders = placeholder.list_forms(columns) if columns is not None else {}
        self._read = set(struct.fieldNames())
        self.letter_case = LetterCase(columns.fieldNames() if columns is not None else ())
        self._misnamed: dict[Hashable, str | None] = {}

    @property
    def wants_numbers(self) -> bool:
        """Return whether exact digits of numbers matter in some column."""
        return any(_has_exact_numbers(field.dataType) for field in self._struct.fields if field.name in IMAGES)

    def arrays(self, changes: Sequence[Change], problems: Problems, suspects: Iterable[int]) -> list[pa.Array]:
        """Return one array per wanted column. `suspects`: the events that may contain the placeholder."""
        columns = list(zip(*changes, strict=True)) or [()] * len(NO_CHANGE)
        operations, befores, afters, sources, times, kinds = columns
        missing: dict[int, list[str]] = {}
        if self._read & set(IMAGES):
            self._check_names(changes, set(kinds), problems)
        if self._read & {*IMAGES, "unavailable"}:
            missing = self._take_placeholders(befores, afters, suspects)
        arrays = []
        for spark_field, arrow_field in zip(self._struct.fields, self._schema, strict=True):
            name = spark_field.name
            if name in IMAGES:
                arrays.append(self._build_image(name, befores if name == "before" else afters, kinds, problems))
            elif name == "op":
                arrays.append(pa.array(operations, pa.string()))
            elif name == "ts":
                arrays.append(_make_timestamps(times))
            elif name == "source":
                arrays.append(_make_texts(sources, arrow_field.type))
            elif name == "unavailable":
                lists: list[list[str] | None] = [None if operation is None else [] for operation in operations]
                for row, names in missing.items():
                    lists[row] = names
                arrays.append(pa.array(lists, arrow_field.type))
            elif name == MARKS.name:
                arrays.append(_make_marks(sources, arrow_field.type))
            else:
                arrays.append(_make_positions(sources, arrow_field.type))
        return arrays

    def _check_names(self, changes: Sequence[Change], kinds: set[Hashable], problems: Problems) -> None:
        """Note the changes whose columns have the table's names in another case."""
        with_schema = {kind for kind in kinds if kind is not None and self._find_encoding(kind).image is not None}
        if all(kind is None or (kind in with_schema and self.explain_misnaming(kind) is None) for kind in kinds):
            return
        for number, (_, before, after, _, _, kind) in enumerate(changes):
            row = before if after is None else after
            reason = None
            if kind in with_schema:
                reason = self.explain_misnaming(kind)
            elif kind is not None and row and self.letter_case.lacks_all(row):
                reason = self.letter_case.explain_misnamed(row)
            if reason is not None:
                problems.add(number, reason)

    def explain_misnaming(self, kind: Hashable) -> str | None:
        """Return why changes with the schema of a kind are bad: they name columns in another case; else None."""
        if kind not in self._misnamed:
            image = self._find_encoding(kind).image
            self._misnamed[kind] = self.letter_case.explain_misnamed(image.fields) if image is not None else None
        return self._misnamed[kind]

    def _take_placeholders(
        self, befores: Sequence[Any], afters: Sequence[Any], suspects: Iterable[int]
    ) -> dict[int, list[str]]:
        """Replace placeholders by the values of `before`, else by None; return the columns without a value by event.

        A value that was not sent is large: null or an empty value in `before` says that it was not sent there either.
        """
        missing: dict[int, list[str]] = {}
        for row in suspects:
            before, after = befores[row] or {}, afters[row] or {}
            for column, forms in self._placeholders.items():
                if before.get(column) in forms:
                    before[column] = None
                if after.get(column) in forms:
                    # Debezium writes an empty value for a NOT NULL column that `before` lacks.
                    after[column] = before.get(column) or None
                    if after[column] is None:
                        missing.setdefault(row, []).append(column)
        return missing

    def _build_image(self, name: str, images: Sequence[Any], kinds: Sequence[Hashable], problems: Problems) -> pa.Array:
        rows: Rows = np.arange(len(images))
        distinct = set(kinds)
        distinct.discard(None)  # events that change no row
        if len(distinct) <= 1:
            return self.image(name, next(iter(distinct), None)).build(images, rows, problems)
        parts, positions = [], []
        for kind in [*distinct, None]:
            here = np.flatnonzero([other == kind for other in kinds])
            chosen = [images[number] for number in here.tolist()]
            parts.append([self.image(name, kind).build(chosen, rows[here], problems)])
            positions.append(here)
        return restore_order(parts, positions)[0]

    def image(self, name: str, kind: Hashable) -> StructColumn:
        """Return the column that reads an image of changes from a kind of source; it is empty if it is not wanted."""
        image = self._images.get((name, kind))
        if image is None:
            encoding = self._find_encoding(kind)
            struct = self._struct[name].dataType if name in self._read else T.StructType([])
            assert isinstance(struct, T.StructType)
            schema = encoding.before if name == "before" else encoding.after
            image = self._images[(name, kind)] = make_image_column(struct, name, schema, encoding.rules)
        return image


class ChangeReader(PayloadReader):
    """Parses each event as a change, and builds the columns of all. A subclass says how an event is parsed."""

    strips_padding = True
    """Whether NULs after an event are cut off before it is parsed."""

    def __init__(self, columns: ChangeColumns, search: PlaceholderSearch | None = None) -> None:
        """Take the wanted columns, and what finds the events that may contain the placeholder, if there is one."""
        self.columns = columns
        self.search = search

    @abstractmethod
    def change(self, payload: bytes, padded: bool) -> Change:
        """Parse an event; see `PayloadReader.arrays` for `padded`. Raises Undecodable."""

    def try_change(self, payload: bytes) -> Change:
        """Parse an event. One that cannot be parsed counts as no change: reading it will report why."""
        try:
            return self.change(payload, False) if payload else NO_CHANGE
        except Undecodable:
            return NO_CHANGE

    def arrays(self, payloads: EventBuffer, padded: bool, problems: Problems) -> list[pa.Array]:
        if padded and self.strips_padding:
            payloads = payloads.strip_nuls()
        changes = read_each(
            payloads, lambda payload: self.change(payload, padded) if payload else NO_CHANGE, problems, NO_CHANGE
        )
        return self.columns.arrays(changes, problems, () if self.search is None else self.search.suspects(payloads))


def _has_exact_numbers(data_type: T.DataType) -> bool:
    # Whole numbers need them, too: 0.99999999999999999 as a double is 1.
    return any(
        isinstance(leaf, T.StringType | T.DecimalType | T.IntegralType | T.VariantType)
        for leaf in iterate_leaf_types(data_type)
    )


def _make_timestamps(micros: Sequence[int | None]) -> pa.Array:
    safe = [time if time is not None and FIRST_MICROS <= time <= LAST_MICROS else None for time in micros]
    return pa.array(safe, pa.int64()).view(pa.timestamp("us", "UTC"))


def _make_texts(sources: Sequence[Mapping[str, Any] | None], arrow_type: pa.DataType) -> pa.Array:
    items = [
        None if source is None else [(replace_surrogates(key), _write_text(value)) for key, value in source.items()]
        for source in sources
    ]
    return pa.array(items, arrow_type)


def _write_text(value: Any) -> str | None:
    if value is None:
        return None
    return replace_surrogates(value if type(value) is str else write_json(value))


def _make_marks(sources: Sequence[Mapping[str, Any] | None], target: pa.StructType) -> pa.Array:
    blocks = [{} if source is None else source for source in sources]
    rows = [block.get("row") for block in blocks]
    marks = {
        member.name: pa.array([_write_text(block.get(member.name)) for block in blocks], pa.string())
        for member in target
        if member.name != "row"
    }
    marks["row"] = pa.array([row if type(row) is int and -(2**63) <= row < 2**63 else None for row in rows], pa.int64())
    return _make_struct(marks, sources, target)


def _make_positions(sources: Sequence[Mapping[str, Any] | None], target: pa.StructType) -> pa.Array:
    columns = list(zip(*read_positions(sources), strict=True)) or [()] * len(POSITION_TYPE)
    arrays = {
        member.name: _make_timestamps(column) if member.name == "time" else pa.array(column, member.type)
        for member, column in zip(POSITION_TYPE, columns, strict=True)
    }
    return _make_struct(arrays, sources, target)


def _make_struct(
    members: Mapping[str, pa.Array], sources: Sequence[Mapping[str, Any] | None], target: pa.StructType
) -> pa.Array:
    absent = pa.array([source is None for source in sources], pa.bool_())
    return pa.StructArray.from_arrays([members[member.name] for member in target], fields=list(target), mask=absent)
