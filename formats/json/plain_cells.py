"""Writes plain values as JSON: numbers, texts, dates, and texts that hold JSON values."""

from __future__ import annotations

import binascii
import json
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T

from ..core.framing import Undecodable
from ..core.scalars import shorten_value, write_json
from ..core.times_of_day import UNITS, check_times, write_times
from ..core.writing import BINARY, Cells, Rows, encode_valid_text, join_parts, make_constant
from ..native import Spec, Unplanned
from .documents import DocumentParser
from .schemas.schema_model import find_value_types
from .timestamps import EPOCH_UNITS, ISO, make_epoch_writer

CONTAINERS = frozenset({"object", "array"})
_PARSER = DocumentParser(exact_numbers=True)


def write_json_value(text: str | None, types: frozenset[str]) -> bytes | str | None:
    """Return the JSON of the value that a text holds, None for a string, or the reason why the schema refuses the text.

    `types`: the names of the types that the schema allows.
    """
    if text is None:
        return None
    begins_container = text.lstrip(" \t\r\n").startswith(("{", "["))
    if "string" in types and not (begins_container and types & CONTAINERS):
        return None
    try:
        value = _PARSER.document(_PARSER.text(text.encode()))
    except Undecodable:
        value = text  # not JSON: a string, if that is allowed
    if "string" in types and (isinstance(value, str) or not find_value_types(value) & types):
        return None
    if not find_value_types(value) & types:
        allowed = " or ".join(sorted(types - {"null"})) or "nothing"
        return f"'{shorten_value(text)}', but the JSON schema expects the text of a JSON value there ({allowed})"
    return write_json(value).encode()


_NULL = make_constant(b"null")
_QUOTE = make_constant(b'"')

_ESCAPES = [(b"\\", b"\\\\"), (b'"', b'\\"')] + [
    (bytes([code]), json.dumps(chr(code)).strip('"').encode()) for code in range(0x20)
]
"""Characters that must be escaped in a string; backslash is first because the replacements add more of them."""


class JsonCells(Cells):
    """Turns a column into JSON values, and describes this to the native encoder."""

    native: Spec | None = None

    def cells_or_null(self, array: pa.Array, rows: Rows, nullable: bool) -> pa.LargeBinaryArray:
        """Return the cells of any array, with the JSON `null` where it is null. Raises as `cells` does."""
        written = self.cells(array, rows, nullable)
        return written.fill_null(_NULL) if written.null_count else written

    def plan(self, level: int) -> Spec:
        """Return the kind of the values, at this level of others, for the native encoder. Raises Unplanned."""
        if self.native is None:
            raise Unplanned(f"column '{self.path}' has a kind that the native encoder does not know")
        return self.native


WriteValues = Callable[[pa.Array, Rows, Cells], pa.LargeBinaryArray]
"""Writes an array without nulls as JSON; the cells refuse what no document can hold."""


class LeafCells(JsonCells):
    """Writes a column of plain values; `native` is its kind for the native encoder."""

    def __init__(self, path: str, write: WriteValues, native: Spec | None = None) -> None:
        super().__init__(path)
        self._write = write
        self.native = native

    def write_present(self, array: pa.Array, rows: Rows) -> pa.LargeBinaryArray:
        return self._write(array, rows, self)


def _write_digits(array: pa.Array, rows: Rows, cells: Cells) -> pa.LargeBinaryArray:
    return array.cast(pa.large_string()).cast(BINARY)


def _quote(cells: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    return join_parts([_QUOTE, cells, _QUOTE], len(cells))


def write_strings(array: pa.Array, rows: Rows, cells: Cells) -> pa.LargeBinaryArray:
    """Write texts."""
    return _quote(_escape(encode_valid_text(array, cells, rows)))


def make_kept_cells(path: str, types: frozenset[str]) -> JsonCells:
    """Return a writer of texts; those that hold JSON of some types become JSON values."""

    def write(array: pa.Array, rows: Rows, cells: Cells) -> pa.LargeBinaryArray:
        texts = encode_valid_text(array, cells, rows)
        values = [write_json_value(text, types) for text in texts.cast(pa.large_string()).to_pylist()]
        for row, value in zip(rows, values, strict=True):
            if isinstance(value, str):
                cells.refuse(row, value)
        return pc.coalesce(pa.array(values, BINARY), _quote(_escape(texts)))

    return LeafCells(path, write)


def _escape(cells: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    buffer = cells.buffers()[2]
    octets = np.frombuffer(buffer, np.uint8) if buffer is not None else np.zeros(0, np.uint8)
    # One pass over the bytes is much cheaper than a search for each of 34 characters.
    special = np.unique(octets[(octets < 0x20) | (octets == ord('"')) | (octets == ord("\\"))])
    for character, replacement in _ESCAPES:
        if character[0] in special:
            cells = pc.replace_substring(cells, pattern=character, replacement=replacement)
    return cells


def _write_booleans(array: pa.Array, rows: Rows, cells: Cells) -> pa.LargeBinaryArray:
    return pc.if_else(array, make_constant(b"true"), make_constant(b"false"))


def _write_floating(array: pa.Array, rows: Rows, cells: Cells) -> pa.LargeBinaryArray:
    """Write the shortest digits that give the same number back. Integral numbers get ".0", as in Java and Python."""
    text = array.cast(pa.large_string())
    if pa.types.is_float32(array.type):
        # A reader may convert via double, so the digits must survive that too.
        same = pc.equal(text.cast(pa.float64()).cast(pa.float32(), safe=False), array)
        if not pc.all(same).as_py():
            text = pc.if_else(same, text, array.cast(pa.float64()).cast(pa.large_string()))
    written = text.cast(BINARY)
    integral = pc.match_substring_regex(text, "^-?[0-9]+$")
    if pc.any(integral).as_py():
        tail = pc.if_else(integral, make_constant(b".0"), make_constant(b""))
        written = join_parts([written, tail], len(written))
    finite = pc.is_finite(array)
    if pc.all(finite).as_py() is False:
        negative = pc.if_else(pc.less(array, 0), make_constant(b'"-Infinity"'), make_constant(b'"Infinity"'))
        special = pc.if_else(pc.is_nan(array), make_constant(b'"NaN"'), negative)
        written = pc.if_else(finite, written, special)
    return written


def write_finite(array: pa.Array, rows: Rows, cells: Cells) -> pa.LargeBinaryArray:
    """Write numbers for a schema that allows no strings in place of NaN and infinity."""
    wrong = ~pc.is_finite(array).to_numpy(zero_copy_only=False)
    cells.refuse_first(wrong, rows, "NaN or infinite, which is not a number in JSON")
    return _write_floating(array, rows, cells)


def _write_base64(array: pa.Array, rows: Rows, cells: Cells) -> pa.LargeBinaryArray:
    return _quote(pa.array([binascii.b2a_base64(value, newline=False) for value in array.to_pylist()], BINARY))


def _write_dates(array: pa.Array, rows: Rows, cells: Cells) -> pa.LargeBinaryArray:
    cells.check_years(array.view(pa.int32()).to_numpy(), array.type, rows)
    return _quote(_write_digits(array, rows, cells))


def make_timestamp_cells(path: str, zone: str | None, timestamps: str) -> JsonCells:
    """Return a writer of ISO 8601 with microseconds (Arrow writes a blank for the T), or of a number since 1970."""
    write_epoch = None if timestamps == ISO else make_epoch_writer(timestamps)

    def write(array: pa.Array, rows: Rows, cells: Cells) -> pa.LargeBinaryArray:
        micros = array.view(pa.int64())
        cells.check_years(micros.to_numpy(), array.type, rows)
        if write_epoch is not None:
            return write_epoch(micros).cast(BINARY)
        # The session's time zone is part of Spark's type, but not of the instant.
        text = micros.view(pa.timestamp("us", zone)).cast(pa.large_string())
        return _quote(pc.replace_substring(text, " ", "T").cast(BINARY))

    native = {"moment": zone is not None} if timestamps == ISO else {"epoch": EPOCH_UNITS[timestamps]}
    return LeafCells(path, write, native)


def make_time_cells(path: str, data_type: T.DataType, timestamps: str) -> JsonCells:
    """Return a writer of times of day with the digits of their column: none, 3 or 6; or as numbers since midnight."""
    write_count = None if timestamps == ISO else make_epoch_writer(timestamps)

    def write(array: pa.Array, rows: Rows, cells: Cells) -> pa.LargeBinaryArray:
        nanos = check_times(array, rows, cells, data_type)
        if write_count is not None:
            return write_count(pa.array(nanos // UNITS["us"])).cast(BINARY)
        return _quote(write_times(nanos, data_type).cast(BINARY))

    return LeafCells(path, write)


LEAVES: dict[type[T.DataType], tuple[WriteValues, Spec]] = {
    T.BooleanType: (_write_booleans, "boolean"),
    T.IntegralType: (_write_digits, "integer"),
    T.DecimalType: (_write_digits, "decimal"),
    T.FloatType: (_write_floating, "float"),
    T.DoubleType: (_write_floating, "float"),
    T.StringType: (write_strings, "text"),
    T.BinaryType: (_write_base64, "base64"),
    T.DateType: (_write_dates, "date"),
}
"""What writes each type, and its kind for the native encoder."""
