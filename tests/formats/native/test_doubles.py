"""The native decoder reads numbers of JSON as the nearest doubles, as Python does, in bits."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import numpy as np
import pytest
from pyspark.sql.types import DoubleType, StructField, StructType

from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, find_format
from tests.formats.both_paths import needs_native
from tests.formats.fuzzing import SEED

COUNT = 20_000


def between_two_doubles(chance: random.Random) -> str:
    """Halfway between two neighbours, where the even one counts; or close to that."""
    half = (chance.getrandbits(52) | 1 << 52) * 2 + 1
    digits = str(half * 5 ** (places := chance.randrange(0, 4)) + chance.choice((-1, 0, 0, 1)))
    return f"{digits[:-places]}.{digits[-places:]}" if places else digits


def point_anywhere(chance: random.Random) -> str:
    digits, place = str(chance.randrange(10**18, 2**64)), chance.randrange(1, 20)
    return f"{digits[:place]}.{digits[place:]}".removesuffix(".")


def shortest_text(chance: random.Random) -> str:
    (value,) = struct.unpack("<d", chance.randbytes(8))
    return repr(value) if abs(value) < float("inf") else "0.1"


def small_fraction(chance: random.Random) -> str:
    return f"-0.{'0' * chance.randrange(18)}{chance.randrange(10**8)}"


@needs_native
@pytest.mark.parametrize("text", [between_two_doubles, point_anywhere, shortest_text, small_fraction])
def test_the_nearest_double(text: Callable[[random.Random], str]) -> None:
    chance = random.Random(f"{SEED} {text.__name__}")
    texts = [text(chance) for _ in range(COUNT)]
    decoder = find_format("json").decoder(Layout(StructType([StructField("x", DoubleType())])))
    read = decoder.decode(EventBuffer.of([f'{{"x": {digits}}}'.encode() for digits in texts])).column(0).to_numpy()
    expected = np.array([float(digits) for digits in texts])
    wrong = np.flatnonzero(read.view(np.int64) != expected.view(np.int64))
    assert not len(wrong), [texts[place] for place in wrong[:5]]
