"""Builds maps from objects, from texts of objects (PostgreSQL's hstore), and from entries where keys are not strings.

Kafka Connect's JSON converter writes a map whose keys are not strings as an array of arrays of key and value,
Confluent's Avro converter as an array of records with the fields `key` and `value`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...core.columns import MapColumn, Misfit, Problems, Rows, describe_kind, make_list_offsets, require_values

_Entries = list[tuple[Any, Any]]
_ENTRY = {"key", "value"}


class EntriesColumn(MapColumn):
    """Builds a map from an object, a text of an object, or entries.

    A key that occurs twice counts once, with its last value, as when Kafka Connect reads the map. Keys that differ in
    the event but are equal in the column make the event bad, because either value may be meant.
    """

    of_text: EntriesColumn | None = None
    """The column that builds maps of texts, if their values are read differently."""

    def build(self, values: Sequence[Any], rows: Rows, problems: Problems) -> pa.Array:
        texts = np.fromiter((type(value) is str for value in values), np.bool_, len(values))
        if self.of_text is None or not texts.any():
            return self._build_maps(values, rows, problems)
        order = np.argsort(texts, kind="stable")
        parts = []
        for column, places in ((self, np.flatnonzero(~texts)), (self.of_text, np.flatnonzero(texts))):
            parts.append(column._build_maps([values[number] for number in places.tolist()], rows[places], problems))
        return pa.concat_arrays(parts).take(pa.array(np.argsort(order)))

    def _build_maps(self, values: Sequence[Any], rows: Rows, problems: Problems) -> pa.Array:
        values = [_parse_object(value) for value in values]
        if pa.types.is_string(self.type.key_type) and not any(type(value) is list for value in values):
            return super().build(values, rows, problems)
        maps = [self._entries(value, row, problems) for value, row in zip(values, rows, strict=True)]
        return self._build_of_entries(maps, rows, problems)

    def _entries(self, value: Any, row: int, problems: Problems) -> _Entries | None:
        if value is None:
            return None
        try:
            return _list_entries(value)
        except Misfit as error:
            self.note_misfit(row, error, problems)
            return None

    def _build_of_entries(self, maps: Sequence[_Entries | None], rows: Rows, problems: Problems) -> pa.Array:
        keys, owners = self._keys(maps, rows, problems)
        kept = self._drop_twins(maps, keys.to_pylist(), rows, problems)
        if kept != maps:
            maps = kept
            keys, owners = self._keys(maps, rows, problems)
        values = self.value.build([value for entries in maps if entries for _, value in entries], owners, problems)
        if not self.value_nullable:
            require_values(values, self.value, owners, problems)
        return pa.MapArray.from_arrays(make_list_offsets(maps, _count_entries(maps)), keys, values, type=self.type)

    def _keys(self, maps: Sequence[_Entries | None], rows: Rows, problems: Problems) -> tuple[pa.Array, Rows]:
        owners = np.repeat(rows, _count_entries(maps))
        return self.key.build([key for entries in maps if entries for key, _ in entries], owners, problems), owners

    def _drop_twins(
        self, maps: Sequence[_Entries | None], keys: list[Any], rows: Rows, problems: Problems
    ) -> list[_Entries | None]:
        """Return the maps with each key once; None for a map with a null key or keys that become equal."""
        kept: list[_Entries | None] = []
        begin = 0
        for entries, row in zip(maps, rows, strict=True):
            if entries is None:
                kept.append(None)
                continue
            own = keys[begin : begin + len(entries)]
            begin += len(entries)
            last: dict[str, tuple[Any, Any]] = {}
            reason = "a map has a key that is null" if None in own else ""
            for key, entry in zip(own, entries, strict=True):
                twin = last.get(repr(key))
                if twin is not None and twin[0] != entry[0]:
                    reason = f"the keys {twin[0]!r:.40} and {entry[0]!r:.40} of a map are one key in the column"
                last[repr(key)] = entry
            if reason:
                self.note_misfit(row, reason, problems)
            kept.append(None if reason else list(last.values()))
        return kept


def _count_entries(maps: Sequence[_Entries | None]) -> Rows:
    return np.fromiter((0 if entries is None else len(entries) for entries in maps), np.int64, len(maps))


def _list_entries(value: Any) -> _Entries:
    """Return the entries of an object, of an array of arrays, or of an array of records. Raises Misfit."""
    if type(value) is dict:
        return list(value.items())
    if type(value) is not list:
        raise Misfit(f"expected an object or an array of entries, found {describe_kind(value)}")
    entries = []
    for entry in value:
        if type(entry) is list and len(entry) == 2:
            entries.append((entry[0], entry[1]))
        elif type(entry) is dict and entry.keys() == _ENTRY:
            entries.append((entry["key"], entry["value"]))
        else:
            raise Misfit(f"expected an array of a key and a value as the entry of a map, found {describe_kind(entry)}")
    return entries


def _parse_object(value: Any) -> Any:
    if type(value) is not str:
        return value
    try:
        parsed = json.loads(value, parse_float=str.encode)  # as NumberText, with all digits
    except (ValueError, RecursionError):
        return value  # refused later
    return parsed if type(parsed) is dict else value
