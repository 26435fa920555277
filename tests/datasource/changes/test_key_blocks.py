"""Files of rows in blocks: some keys are found without the others, and what is damaged is not used."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pyspark_pravega.datasource.changes.key_blocks import BlockWriter, find_slots, read_blocks
from pyspark_pravega.datasource.changes.rows.clearing import Clearings
from pyspark_pravega.datasource.changes.rows.entries import make_entry_table, name_value
from pyspark_pravega.datasource.changes.rows.names import NUMBERS
from pyspark_pravega.datasource.changes.rows.row_history import RowState
from pyspark_pravega.datasource.changes.states import WHOLE, RowStates

NAME = "q-0-000000009-x"


def make_rows(values: dict[str, pa.Array]) -> pa.Table:
    count = len(next(iter(values.values())))
    filler = pa.array([f"{number:0500}" for number in range(count)])
    return make_entry_table({**values, "filler": filler}, {name: np.arange(count) for name in NUMBERS})


def write(directory: Path, key: Sequence[str], *parts: pa.Table) -> Path:
    state = RowState(["an origin"], Clearings(), (), {"origin": "o"})
    with RowStates(directory).write(NAME, make=partial(BlockWriter, key=key)) as writer:
        writer.add(state)
        for part in parts:
            writer.add(RowState(state.origins, state.cleared, [[part]], state.events))
    return directory / (NAME + WHOLE)


def read(path: Path, slots: Sequence[int] | None = None) -> list[dict[str, Any]]:
    with read_blocks(path, slots) as state:
        assert list(state.origins) == ["an origin"] and state.events == {"origin": "o"}
        return [row for file in state.entries for part in file for row in part.to_pylist()]


def texts(rng: random.Random, count: int) -> list[str]:
    letters = "aZ0 é☃😀\x00\x01"
    return list({"".join(rng.choices(letters, k=rng.randrange(1, 9))) + str(number) for number in range(count)})


KEYS: dict[str, Callable[[random.Random, int], dict[str, pa.Array]]] = {
    "whole numbers": lambda rng, count: {"a": pa.array([rng.randrange(-(1 << 63), 1 << 63) for _ in range(count)])},
    "small numbers": lambda rng, _: {"a": pa.array(rng.sample(range(-(1 << 15), 1 << 15), 30_000), pa.int16())},
    "texts": lambda rng, count: {"a": pa.array(texts(rng, count))},
    "long texts": lambda rng, _: {"a": pa.array([*(f"{number}" * 40_000 for number in range(9)), "x" * 17_000, "y"])},
    "dates": lambda rng, _: {
        "a": pa.array(
            [datetime.date(1900, 1, 1) + datetime.timedelta(number) for number in rng.sample(range(60_000), 25_000)]
        )
    },
    "decimals": lambda rng, count: {
        "a": pa.array(rng.sample(range(1 << 40), count)).cast(pa.decimal128(20, 0)).cast(pa.decimal128(24, 3))
    },
    "times": lambda rng, count: {"a": pa.array(rng.sample(range(1 << 50), count), pa.timestamp("us", "UTC"))},
    "bytes": lambda rng, count: {"a": pa.array([text.encode() for text in texts(rng, count)])},
    "two columns": lambda rng, count: {
        "a": pa.array([number % 100 for number in range(count)], pa.int32()),
        "b": pa.array([f"{number // 100}\x01" for number in range(count)]),
    },
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("parts", [1, 3])
def test_the_blocks_of_some_keys_have_their_rows(tmp_path: Path, kind: str, parts: int) -> None:
    rng = random.Random(kind)
    rows = make_rows(KEYS[kind](rng, 20_000))
    key = [name for name in ("a", "b") if name_value(name) in rows.column_names]
    size = -(-len(rows) // parts)
    path = write(tmp_path, key, *(rows.slice(begin, size) for begin in range(0, len(rows), size)))
    by_number = {row["offset"]: row for row in rows.to_pylist()}
    whole = read(path)
    assert {row["offset"]: row for row in whole} == by_number and len(whole) == len(rows)
    for count in (1, 2, 3, 1):
        asked = rng.sample(range(len(rows)), count)
        found = read(path, find_slots(rows.take(pa.array(asked)), key).tolist())
        assert all(by_number[row["offset"]] == row for row in found)
        assert set(asked) <= {row["offset"] for row in found}
        assert count > 1 or len(rows) < 20_000 or len(found) <= len(rows) * 0.6
    assert read(path, []) == []


def test_the_slot_of_a_key_does_not_depend_on_its_neighbours() -> None:
    keys = pa.table({name_value("a"): [letter * count for letter in "é☃x" for count in (9, 17_000, 30_000, 70_000)]})
    together = find_slots(keys, ["a"]).tolist()
    assert together == [find_slots(keys.slice(row, 1), ["a"]).item() for row in range(len(keys))]


def test_a_state_without_rows(tmp_path: Path) -> None:
    for parts in ((), (make_rows({"a": pa.array([1])}).slice(0, 0),)):
        path = write(tmp_path, ["a"], *parts)
        assert read(path) == read(path, [7]) == []


def test_what_is_damaged_is_not_used_and_harms_no_other_block(tmp_path: Path) -> None:
    rows = make_rows({"a": pa.array(range(20_000))})
    path = write(tmp_path, ["a"], rows)
    content = path.read_bytes()
    slots = find_slots(rows, ["a"]).tolist()
    first, last = (slots.index(end(slots)) for end in (min, max))
    places = {"head": 50, "first block": 600_000, "index": len(content) - 20, "count": len(content) - 8}
    for place, at in places.items():
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        for asked in ([slots[first]], None):
            with pytest.raises(ValueError, match="checksum|index"):
                read(path, asked)
        if place == "first block":
            assert last in {row["offset"] for row in read(path, [slots[last]])}
        else:
            with pytest.raises(ValueError, match="checksum|index"):
                read(path, [slots[last]])


def test_files_of_another_form_are_not_used(tmp_path: Path) -> None:
    """Those of earlier releases were one Arrow stream."""
    with RowStates(tmp_path).write(NAME) as writer:
        writer.add(RowState([], Clearings(), [[make_rows({"a": pa.array(range(9))})]]))
    path = tmp_path / (NAME + WHOLE)
    for content in (path.read_bytes(), path.read_bytes() + bytes(32), bytes(3), bytes(12), bytes(100)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="index"):
            read(path)
