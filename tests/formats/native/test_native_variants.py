"""The native decoder makes the VARIANTs that Spark's own Python makes, byte for byte."""

from __future__ import annotations

import json
import random

import pytest
from pyspark.sql.types import ArrayType, StringType, StructType, VariantType
from pyspark.sql.variant_utils import VariantUtils

from pyspark_pravega.formats.core.batches import BatchDecoder
from pyspark_pravega.formats.core.events import EventBuffer
from pyspark_pravega.formats.core.format import Layout, find_format
from pyspark_pravega.formats.native import NativeReader
from tests.formats.both_paths import BothPaths, needs_native
from tests.formats.core.test_mutations import damaged
from tests.formats.fuzzing import SEED

SCHEMA = StructType().add("v", VariantType())
NESTED = StructType().add("k", StringType()).add("s", StructType().add("l", ArrayType(VariantType())))

NUMBERS = [
    *("0", "-0", "-0.0", "0.00", "1.50", "127", "128", "-128", "-129", "32767", "-32769", "2147483648", "-2147483649"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "1" + "0" * 37),
    *("1" * 39, "0.123456789", "0.1234567891", "123456789.5", "0." + "0" * 8 + "1", "0." + "0" * 9 + "1", "-0.5"),
    *("999999999.999999999", "9999999999.999999999", "0." + "1" * 18, "1." + "1" * 18, "0." + "0" * 37 + "1"),
    *("0." + "0" * 38 + "1", "1e2", "1.5E-3", "-0e0", "4.9e-324", "2e-324", "1.7976931348623157e308"),
    *("1e309", "-1e400", "9" * 308, "9" * 400, "01", "1.", ".5", "+1", "NaN"),
]
TEXTS = [
    *(f'"{"x" * size}"' for size in (0, 63, 64, 255, 256, 65_535, 65_536)),
    r'"\u0041\n\t\"\\\/"', r'"\ud83d\ude00"', r'"\ud83d"', '"😀ż"', '"a\tb"', '"' + "ż" * 32 + '"',
    "true", "false", "null",
    '{"a":1,"a":2}', '{"b":1,"a":{"b":2}}', '{"\ufb00":1,"\U00010000":2}', '{"\U00010000":1}', r'{"\u0061":1,"a":2}',
    "{}", "[]", "[[],{}]", '[1,"1",null,true,1.5]', '{"":0}', ' { "k" : [ 1 , 2 ] } ', "[1,]", "{1:2}", "[1 2]", "nul",
    *(f"[{','.join(['7'] * size)}]" for size in (127, 128, 255, 256, 70_000)),
    *(json.dumps({f"k{number}": number for number in range(size)}) for size in (255, 256, 257, 6000)),
    *("[" * depth + "]" * depth for depth in (510, 511, 512, 600)),
    '{"x":' * 511 + "1" + "}" * 511,
    f'["{"x" * 600_000}", "{"y" * 600_000}"]',
]  # fmt: skip


def make_text(chance: random.Random, depth: int) -> str:
    """A text of JSON, with some blanks, and now and then a key that occurs twice."""
    kind = chance.randrange(8 if depth else 5)
    blank = chance.choice(("", "", " ", "\n "))
    if kind < 2:
        return blank + chance.choice(NUMBERS[:-9])
    if kind == 2:
        return f"{chance.randrange(-(10**12), 10**12) / 10 ** chance.randrange(9):f}"
    if kind < 5:
        return json.dumps(
            "".join(chance.choices('ab\n"\\ż😀 ', k=chance.randrange(80))), ensure_ascii=chance.random() < 0.5
        )
    parts = [make_text(chance, depth - 1) for _ in range(chance.randrange(6))]
    if kind == 5:
        return blank + f"[{','.join(parts)}{blank}]"
    names = chance.sample(["a", "b", "ab", "ż", "", "k\\n", "long " * 20, "B"], len(parts))
    if names and chance.random() < 0.02:
        names[-1] = names[0]
    return "{" + ",".join(f'{blank}"{name}" : {part}' for name, part in zip(names, parts, strict=True)) + "}"


def unread(events: list[bytes]) -> set[int]:
    """The positions of the events that the native decoder leaves to the reference."""
    decoder = find_format("json").decoder(Layout(SCHEMA))
    assert isinstance(decoder, BatchDecoder)
    reader = decoder.reader_of(None)
    assert isinstance(reader, NativeReader)
    _, positions = reader.decoder.decode(*EventBuffer.of(events).octets(), False)
    return set() if positions is None else set(memoryview(positions).cast("q"))


@needs_native
def test_values_at_the_limits() -> None:
    events = [b'{"v":%s}' % text.encode("utf-8", "surrogatepass") for text in (*NUMBERS, *TEXTS)]
    BothPaths("json", SCHEMA).check(EventBuffer.of(events))
    plain = ["-0", "1.50", "-9223372036854775808", "4.9e-324", "true", '[1,"1",null,true,1.5]', '{"b":1,"a":{"b":2}}']
    assert not unread([b'{"v":%s}' % text.encode() for text in plain])


@needs_native
def test_values_in_lists_and_structs() -> None:
    chance = random.Random(f"{SEED} nested")
    events = [
        f'{{"k":"{n}","s":{{"l":[{",".join(make_text(chance, 3) for _ in range(chance.randrange(4)))}]}}}}'.encode()
        for n in range(300)
    ]
    BothPaths("json", NESTED).check(EventBuffer.of([*events, b'{"k":"x"}', b'{"s":null}', b'{"s":{"l":[null,1]}}']))


@needs_native
@pytest.mark.parametrize("part", range(4))
def test_random_values(part: int) -> None:
    chance = random.Random(f"{SEED} {part}")
    texts = [make_text(chance, 5) for _ in range(500)]
    events = [f'{{"v":{text}}}'.encode() for text in texts]
    left = unread(events)
    assert len(left) < len(events) / 2
    rows, _ = BothPaths("json", SCHEMA).check(EventBuffer.of(events))
    native = [text for index, text in enumerate(texts) if index not in left]
    alone = (
        find_format("json").decoder(Layout(SCHEMA)).decode(EventBuffer.of([b'{"v":%s}' % t.encode() for t in native]))
    )
    for text, variant in zip(native, alone.column(0).to_pylist(), strict=True):
        made = None if variant is None else (variant["value"], variant["metadata"])
        assert made == (None if text.strip() == "null" else VariantUtils.parse_json(text)), text
    BothPaths("json", SCHEMA).check(EventBuffer.of([damaged(event, chance) for event in events]))
    assert rows.num_rows
