"""VARIANT columns: JSON values of any kind, in Spark's binary form while they are rows.

Spark's own Python encodes the values; `variant_text` decodes them. A JSON null is NULL. Dates, times and bytes, which
JSON lacks, are written as strings, as `to_json` shows them in UTC.
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import VariantType
from pyspark.sql.variant_utils import VariantUtils

from ..core.arrow_types import find_arrow_type
from ..core.columns import Column, Leaf, Misfit, NumberText
from ..core.framing import Undecodable
from ..core.scalars import shorten_value, write_json
from ..core.writing import BINARY, Rows, make_constant
from .documents import DEEPEST, DocumentParser
from .plain_cells import JsonCells
from .variant_text import is_sorted_as_in_java, write_variant_text

_PARSER = DocumentParser(exact_numbers=True)
_NULL = make_constant(b"null")

_SURELY_SMALL = 1 << 20
"""A text of so many characters fits into the 16 MiB that a VARIANT can have: none makes more than 8 bytes."""


def make_variant_column(path: str) -> Column:
    """Return the column that reads any JSON value."""
    return Leaf(path, find_arrow_type(VariantType()), encode_variant, kinds=frozenset(), native=("variant",))


def parse_variant(text: str) -> dict[str, bytes] | None:
    """Return the VARIANT of a JSON text, None for null. Raises Misfit for any other text."""
    try:
        value = _PARSER.document(_PARSER.text(text.encode()))
    except (Undecodable, UnicodeEncodeError) as error:
        shown = ascii(text) if isinstance(error, UnicodeEncodeError) else f"'{shorten_value(text)}'"
        raise Misfit(f"the string {shorten_value(shown)} is not JSON: {error}") from None
    return None if value is None else encode_variant(value)


def encode_variant(value: Any) -> dict[str, bytes]:
    """Return the VARIANT of a JSON value that is not null. Raises Misfit if there is none."""
    _check_parts(value)
    try:
        encoded, metadata = VariantUtils.parse_json(write_json(value))
    except (ValueError, OverflowError) as error:
        raise Misfit(f"no VARIANT can hold the value ({error})") from error
    return {"value": encoded, "metadata": metadata}


def _check_parts(value: Any) -> None:
    """Raise Misfit for a part that would not be kept.

    Numbers beyond doubles would become infinite. Spark would miss some keys that Java and Python sort differently.
    """
    if isinstance(value, dict) and not is_sorted_as_in_java(list(value)):
        raise Misfit("no VARIANT can hold an object whose keys mix characters beyond U+FFFF with some below it")
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_parts(part)
    elif isinstance(value, NumberText | float | int):
        try:
            finite = math.isfinite(float(value))
        except OverflowError:
            finite = False
        if not finite:
            raise Misfit(f"no VARIANT can hold the number {shorten_value(value)}, which is out of the range of double")


def write_variants(array: pa.Array) -> pa.StringArray:
    """Return the JSON text of each value, null for a JSON null. Raises Misfit for a value that could not be read."""
    texts = [None if value is None else _write_variant(value, DEEPEST) for value in array.to_pylist()]
    return pa.array([None if text == "null" else text for text in texts], pa.string())


def _write_variant(variant: dict[str, bytes], deepest: int) -> str:
    text = write_variant_text(variant["value"], variant["metadata"], deepest)
    if len(text) > _SURELY_SMALL:
        try:
            encode_variant(_PARSER.document(text))
        except Misfit as error:
            raise Misfit(f"a VARIANT that could not be read back ({error})") from error
    return text


class VariantCells(JsonCells):
    """Writes values as the JSON that they stand for. `level`: how many objects and arrays are around each."""

    def __init__(self, path: str, level: int) -> None:
        super().__init__(path)
        self._deepest = DEEPEST - level

    def cells(self, array: pa.Array, rows: Rows, nullable: bool) -> pa.LargeBinaryArray:
        """Return the cells of any array, null for NULL and for a JSON null. Raises what the other cells do."""
        written = super().cells(array, rows, nullable)
        nulls = pc.equal(written, _NULL).fill_null(False)
        first = pc.index(nulls, True).as_py()
        if first < 0:
            return written
        if not nullable:
            self.refuse(rows[first], self.no_null)
        return pc.if_else(nulls, pa.scalar(None, BINARY), written)

    def write_present(self, array: pa.Array, rows: Rows) -> pa.LargeBinaryArray:
        texts = []
        for row, variant in zip(rows, array.to_pylist(), strict=True):
            try:
                texts.append(_write_variant(variant, self._deepest).encode())
            except Misfit as error:
                self.refuse(row, str(error))
        return pa.array(texts, BINARY)
