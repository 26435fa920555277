"""VARIANT columns: JSON values of any kind, in Spark's binary form while they are rows.

Spark's own Python encodes and decodes the values. A JSON null is NULL. Dates, times and bytes, which JSON lacks, are
written as strings, as `to_json` shows them.
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
from pyspark.sql.types import VariantType
from pyspark.sql.variant_utils import VariantUtils

from ..core.arrow_types import find_arrow_type
from ..core.columns import Column, Leaf, Misfit, NumberText
from ..core.framing import Undecodable
from ..core.scalars import shorten_value, write_json
from ..core.writing import BINARY, Rows
from .documents import DocumentParser
from .plain_cells import JsonCells

_PARSER = DocumentParser(exact_numbers=True)


def make_variant_column(path: str) -> Column:
    """Return the column that reads any JSON value."""
    return Leaf(path, find_arrow_type(VariantType()), encode_variant, kinds=frozenset())


def parse_variant(text: str) -> dict[str, bytes] | None:
    """Return the VARIANT of a JSON text, None for null. Raises Misfit for any other text."""
    try:
        value = _PARSER.document(_PARSER.text(text.encode()))
    except (Undecodable, UnicodeEncodeError) as error:
        shown = ascii(text) if isinstance(error, UnicodeEncodeError) else f"'{shorten_value(text)}'"
        raise Misfit(f"the string {shorten_value(shown)} is no JSON: {error}") from None
    return None if value is None else encode_variant(value)


def encode_variant(value: Any) -> dict[str, bytes]:
    """Return the VARIANT of a JSON value that is not null. Raises Misfit if there is none."""
    _check_order_of_keys(value)
    _check_numbers(value)
    try:
        encoded, metadata = VariantUtils.parse_json(write_json(value))
    except (ValueError, OverflowError) as error:
        raise Misfit(f"no VARIANT can hold the value ({error})") from error
    return {"value": encoded, "metadata": metadata}


def _check_numbers(value: Any) -> None:
    """Raise Misfit for a number beyond the range of doubles, which would become infinite."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_numbers(part)
    elif isinstance(value, NumberText | float | int):
        try:
            finite = math.isfinite(float(value))
        except OverflowError:
            finite = False
        if not finite:
            raise Misfit(f"no VARIANT can hold the number {shorten_value(value)}, which is out of the range of double")


def _check_order_of_keys(value: Any) -> None:
    """Raise Misfit for an object whose keys Java sorts otherwise than Python: Spark would not find some of them.

    Java compares UTF-16, in which characters beyond U+FFFF come before those from U+E000 on.
    """
    if isinstance(value, dict):
        if not all(map(str.isascii, value)) and sorted(value) != sorted(value, key=lambda key: key.encode("utf-16-be")):
            raise Misfit("no VARIANT can hold an object whose keys mix characters beyond U+FFFF with some below it")
        for part in value.values():
            _check_order_of_keys(part)
    elif isinstance(value, list):
        for part in value:
            _check_order_of_keys(part)


def write_variants(array: pa.Array) -> pa.StringArray:
    """Return the JSON text of each value. Raises Misfit for a value without one."""
    return pa.array(
        [None if each is None else _write_variant(each).decode() for each in array.to_pylist()], pa.string()
    )


def _write_variant(variant: dict[str, bytes]) -> bytes:
    try:
        text = VariantUtils.to_json(variant["value"], variant["metadata"]).encode()
        _PARSER.document(_PARSER.text(text))
    except (Undecodable, ValueError, OverflowError) as error:
        raise Misfit(f"a VARIANT that has no JSON ({shorten_value(str(error))})") from error
    return text


class VariantCells(JsonCells):
    """Writes values as the JSON that they stand for."""

    def write_present(self, array: pa.Array, rows: Rows) -> pa.LargeBinaryArray:
        texts = []
        for row, variant in zip(rows, array.to_pylist(), strict=True):
            try:
                texts.append(_write_variant(variant))
            except Misfit as error:
                self.refuse(row, str(error))
        return pa.array(texts, BINARY)
