"""Texts of CHAR(n) and VARCHAR(n) in batches that are to be written, at any depth."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, CharType, DataType, MapType, StringType, StructField, StructType, VarcharType

from pyspark_pravega.errors import InvalidRowError
from pyspark_pravega.formats.core.arrow_types import find_arrow_type
from pyspark_pravega.formats.core.text_lengths import make_length_check

CODE, NAME = CharType(3), VarcharType(2)


def struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, data_type) for name, data_type in fields.items()])


def fitted(data_type: DataType, *values: Any, given: DataType | None = None) -> list[Any]:
    batch = pa.record_batch([pa.array([None, *values, None], find_arrow_type(given or data_type))], ["c"])
    # A slice begins within its buffers.
    found = make_length_check(struct(c=data_type))(batch.slice(1, len(values))).column("c")
    found.validate(full=True)
    return list(found.to_pylist())


@pytest.mark.parametrize(
    ("data_type", "values", "expected"),
    [
        (NAME, ["", "é", "日本", "ab   ", "🎉🎉 ", None, "a"], ["", "é", "日本", "ab", "🎉🎉", None, "a"]),
        (CODE, ["", "é", "abc", "abc  ", "a    ", None], ["   ", "é  ", "abc", "abc", "a  ", None]),
        (ArrayType(CODE), [["a", None], None, [], ["bcd "]], [["a  ", None], None, [], ["bcd"]]),
        (
            MapType(CODE, ArrayType(NAME)),
            [[("k", ["x ", "yz "])], None, [("l", None)]],
            [[("k  ", ["x ", "yz"])], None, [("l  ", None)]],
        ),
        (struct(a=StringType(), b=CODE), [{"a": "long", "b": "x"}, None, {"a": None, "b": None}], None),
    ],
    ids=str,
)
def test_texts_are_padded_and_lose_blanks(data_type: DataType, values: list[Any], expected: list[Any] | None) -> None:
    expected = expected or [{"a": "long", "b": "x  "}, None, {"a": None, "b": None}]
    assert fitted(data_type, *values) == expected


def test_fields_go_by_their_names() -> None:
    table, rows = struct(a=CODE, b=NAME), struct(b=StringType(), a=StringType(), other=StringType())
    assert fitted(table, {"b": "x", "a": "y", "other": "long"}, given=rows) == [{"b": "x", "a": "y  ", "other": "long"}]


@pytest.mark.parametrize(
    ("data_type", "value", "where"),
    [
        (NAME, "abc", "'c' is a text of 3 characters, but varchar\\(2\\) has at most 2"),
        (CODE, "abcd", "'c' is a text of 4 characters, but char\\(3\\) has at most 3"),
        (ArrayType(NAME), ["a", None, "abc"], "'c.element'"),
        (MapType(NAME, StringType()), [("abc", "")], "'c.key'"),
        (MapType(StringType(), NAME), [("", "abc")], "'c.value'"),
        (struct(a=ArrayType(struct(b=NAME))), {"a": [{"b": "abc"}]}, "'c.a.element.b'"),
    ],
    ids=str,
)
def test_longer_texts_are_refused(data_type: DataType, value: Any, where: str) -> None:
    with pytest.raises(InvalidRowError, match=f"row 2 of the batch cannot be written: column {where}"):
        fitted(data_type, None, None, value)


def test_what_is_no_text_is_named() -> None:
    broken = pa.array([b"a", None, b"\xff"], pa.binary()).view(pa.string())
    with pytest.raises(InvalidRowError, match="row 2 .*'c' is a string that is not valid UTF-8"):
        make_length_check(struct(c=CODE))(pa.record_batch([broken], ["c"]))


def test_other_tables_pay_nothing() -> None:
    batch = pa.record_batch([pa.array(["abc"])], ["c"])
    assert make_length_check(struct(c=StringType(), d=CODE))(batch).column("c") is not None
    assert make_length_check(struct(c=StringType()))(batch) is batch
