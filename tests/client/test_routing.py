"""Routing keys land where the official Java client puts them."""

from __future__ import annotations

import struct
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega import native
from pyspark_pravega.client import routing
from pyspark_pravega.client.routing import MAX_KEY, SegmentRouter, hash_keys, hash_table_key
from pyspark_pravega.client.stream import (
    SegmentRange,
    Stream,
    get_segment_epoch,
    get_segment_number,
    get_transaction_epoch,
    make_key_value_table_stream,
    make_segment_id,
    make_segment_name,
)
from pyspark_pravega.errors import InvalidRowError, ProtocolError

VECTORS = Path(__file__).parents[1] / "interop" / "vectors"


def rows(name: str) -> list[list[str]]:
    return [line.split("\t") for line in (VECTORS / name).read_text().splitlines()]


def as_double(bits: str) -> float:
    value: float = struct.unpack(">d", bytes.fromhex(bits))[0]
    return value


def java_keys() -> dict[str, float]:
    return {
        bytes.fromhex(units).decode("utf-16-be", "surrogatepass"): as_double(bits)
        for units, bits in rows("routing.tsv")
    }


def hash_key(key: str) -> float:
    """Return the position of one routing key, as key-value tables hash theirs one by one."""
    return routing._hash_one(key.encode("utf-16-le", "surrogatepass"), routing._EVENT_SEED)


def is_unicode(key: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in key)


def test_one_key_at_a_time_as_java() -> None:
    vectors = java_keys()
    assert len(vectors) > 150
    assert {key: hash_key(key) for key in vectors} == vectors


@pytest.mark.parametrize("switch", ["0", "1"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_many_keys_at_once_as_java(kind: pa.DataType, switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native.SWITCH, switch)
    vectors = {key: position for key, position in java_keys().items() if is_unicode(key)}
    array = pa.array(["ведущий", *vectors, "x"], kind)
    assert hash_keys(array.slice(1, len(vectors))).tolist() == list(vectors.values())


@pytest.mark.parametrize("count", [1, 40])
def test_few_and_many_long_keys_agree(count: int) -> None:
    """They are hashed one by one or together, beside short ones."""
    keys = [("ключ €" * 400)[: 800 + number * 3] + str(number) for number in range(count)] + ["short", "k" * 17, ""]
    assert hash_keys(pa.array(keys)).tolist() == [hash_key(key) for key in keys]


def test_keys_over_the_limit() -> None:
    longest = "\U0001f600" * (MAX_KEY // 2)
    assert hash_keys(pa.array([longest])).tolist() == [hash_key(longest)]
    with pytest.raises(InvalidRowError, match="key of row 1 has 65,537 characters; at most 65,536"):
        hash_keys(pa.array(["a", longest + "x"]))


def test_table_keys_as_java() -> None:
    for key, bits in rows("table_keys.tsv"):
        assert hash_table_key(bytes.fromhex(key)) == as_double(bits)


@given(st.lists(st.text(max_size=60)))
def test_all_ways_agree(keys: list[str]) -> None:
    expected = [hash_key(key) for key in keys]
    assert hash_keys(pa.array(keys, pa.string())).tolist() == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(native.SWITCH, "0")
        assert hash_keys(pa.array(keys, pa.string())).tolist() == expected
    assert all(0.0 <= position < 1.0 for position in expected)


def test_a_key_far_longer_than_the_others() -> None:
    keys = ["short", "ш" * 60_000, ""]
    assert hash_keys(pa.array(keys)).tolist() == [hash_key(key) for key in keys]


def test_null_keys_are_refused_with_their_row() -> None:
    with pytest.raises(InvalidRowError, match="row 1 is null"):
        hash_keys(pa.array(["a", None]))


def test_no_keys() -> None:
    assert hash_keys(pa.array([], pa.string())).tolist() == []


def test_router_picks_by_range_and_a_boundary_goes_down() -> None:
    router = SegmentRouter([SegmentRange(7, 0.5, 1.0), SegmentRange(3, 0.0, 0.25), SegmentRange(5, 0.25, 0.5)])
    hashes = np.array([0.0, 0.1, 0.25, 0.2500001, 0.5, 0.75, 0.9999999])
    assert [router.segment_ids[place] for place in router.places(hashes)] == [3, 3, 3, 5, 5, 7, 7]
    assert router.segment_ids == [3, 5, 7]


def test_router_takes_rounded_boundaries() -> None:
    third = 0.3333333333333333
    router = SegmentRouter([SegmentRange(0, 0.0, third), SegmentRange(1, 0.33333333333333337, 0.99999999)])
    assert router.places(np.array([third, 0.34, 0.999999999])).tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    "ranges",
    [
        [],
        [SegmentRange(0, 0.0, 0.5)],
        [SegmentRange(0, 0.0, 0.4), SegmentRange(1, 0.5, 1.0)],
        [SegmentRange(0, 0.0, 0.6), SegmentRange(1, 0.5, 1.0)],
    ],
)
def test_router_refuses_gaps_and_overlaps(ranges: list[SegmentRange]) -> None:
    with pytest.raises(ProtocolError, match="do not cover the key space"):
        SegmentRouter(ranges)


def test_segment_names_as_java() -> None:
    for identifier, transaction, name in rows("names.tsv"):
        if transaction == "table":
            assert (
                make_segment_name(make_key_value_table_stream("scope", "t"), make_segment_id(int(identifier), 0))
                == name
            )
        else:
            owner = uuid.UUID(transaction) if transaction else None
            assert make_segment_name(Stream("scope", "stream"), int(identifier), owner) == name


@given(st.integers(0, (1 << 31) - 1), st.integers(0, (1 << 31) - 1))
def test_segment_ids_are_made_of_number_and_epoch(number: int, epoch: int) -> None:
    identifier = make_segment_id(number, epoch)
    assert (get_segment_number(identifier), get_segment_epoch(identifier)) == (number, epoch)
    assert get_transaction_epoch(uuid.UUID(int=epoch << 96 | number)) == epoch
