"""The CSV format: one record per event, a field per column in the table's order, as RFC 4180 writes it.

| Spark | field |
|---|---|
| boolean | true, false (in any case) |
| tinyint, smallint, int, bigint | 5, -5, +5 |
| float, double | 0.1, 1e3, NaN, Infinity, -Infinity |
| decimal(p, s) | 12.50; digits that do not fit make the event bad |
| string, char(n), varchar(n) | text, "quoted text" |
| binary | base64 |
| date | 2024-01-31 |
| timestamp | 2024-01-31T12:00:00.5Z, with Z or an offset |
| timestamp_ntz | 2024-01-31T12:00:00.5 |

A field that is the null value (empty by default) and not quoted is null. One line break may end the event; line
breaks elsewhere belong inside quotes. An event has exactly as many fields as the table has columns. There is no header,
because every event is a record. Blanks around a field belong to it. An event that begins with a byte order mark is bad,
because nobody would see it in the first field. Inside quotes it is a character.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T

from pyspark_pravega.errors import InvalidOptionError, InvalidSchemaError, UnsupportedTypeError, format_count

from ..core.arrow_types import find_arrow_type, replace_char_types
from ..core.batches import PayloadReader, UniformDecoder, read_each
from ..core.columns import Column, Misfit, NumberText, Problems, Rows, StructColumn, StructMember
from ..core.events import EventBuffer
from ..core.format import Decoder, Encoder, Layout, Resolve, Settings
from ..core.framing import Undecodable, decode_text
from ..core.scalars import SPECIAL_FLOATS, shorten_value
from ..core.spark_types import parse_spark_schema
from ..core.writing import BINARY, BatchEncoder, Cells, encode_valid_text, join_parts, make_constant
from ..json.values import make_column
from ..json.writing import make_cells
from .whole_event import check_bare, make_no_schema_error

DELIMITER, QUOTE, ESCAPE, NULL_VALUE = "csv.delimiter", "csv.quote", "csv.escape", "csv.null-value"
_BYTE_ORDER_MARK = "\ufeff"
_NAMED = {"tab": "\t", "\\t": "\t"}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_LONGEST_NUMBER = 4000
"""Most characters of a number that Python parses."""


@dataclass(frozen=True)
class Dialect:
    """The characters that structure a record. `null` is the text of a null."""

    delimiter: str
    quote: str
    escape: str
    null: str

    @classmethod
    def of(cls, settings: Settings) -> Dialect:
        """Read the table's options. Raises InvalidOptionError for characters that contradict each other."""
        dialect = cls(
            _read_character(settings, DELIMITER, ","),
            _read_character(settings, QUOTE, '"'),
            _read_character(settings, ESCAPE, _read_character(settings, QUOTE, '"')),
            settings.get(NULL_VALUE, ""),
        )
        if dialect.delimiter in (dialect.quote, dialect.escape):
            raise InvalidOptionError(
                f"'{DELIMITER}'='{settings.get(DELIMITER, ',')}' is the quote or escape character too. Choose another."
            )
        if any(sign in dialect.null for sign in (dialect.delimiter, dialect.quote, "\r", "\n")):
            raise InvalidOptionError(
                f"'{NULL_VALUE}'='{dialect.null}' holds a delimiter, a quote or a line break, so it cannot be one "
                "field. Choose another."
            )
        return dialect


def _read_character(settings: Settings, key: str, default: str) -> str:
    text = settings.get(key, default)
    text = _NAMED.get(text, text)
    if len(text) != 1 or text in "\r\n":
        raise InvalidOptionError(f"'{key}'='{text}' is not valid: expected one character, or tab")
    return text


class CsvFormat:
    """The format of CSV records. The registry does not know it, so the columns are kept with the stream."""

    name = "csv"
    registry_format = None
    changes = False

    def schema_text(self, layout: Layout, name: str, namespace: str, comment: str | None = None) -> str:
        """Return the columns as Spark's JSON. Raises UnsupportedTypeError for a nested column, InvalidOptionError."""
        Dialect.of(layout.settings)
        for field in layout.columns:
            if isinstance(field.dataType, (T.StructType, T.ArrayType, T.MapType, T.VariantType)):
                raise UnsupportedTypeError(
                    f"column '{field.name}' has type {field.dataType.simpleString()}, but a CSV field holds one value; "
                    "use format avro or json"
                )
            make_cells(replace_char_types(field.dataType), field.name)
        return json.dumps(layout.columns.jsonValue(), separators=(",", ":"), ensure_ascii=False)

    def spark_schema(self, schema_text: str) -> T.StructType:
        try:
            return parse_spark_schema(schema_text)
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidSchemaError(f"the columns kept with the table cannot be read ({error})") from None

    def type_name(self, schema_text: str) -> str:
        raise make_no_schema_error(self.name)

    def decoder(self, layout: Layout, resolve: Resolve | None = None) -> Decoder:
        """Make a decoder. The schema text has all columns in order; without it, the layout must have them.

        It does not look for headers: `resolve` is not used.
        """
        table = self.spark_schema(layout.schema_text) if layout.schema_text else layout.columns
        return UniformDecoder("", layout.columns, None, _CsvReader(layout.columns, table, Dialect.of(layout.settings)))

    def encoder(self, layout: Layout, encoding_id: int | None = None, codec: str = "") -> Encoder:
        """Make an encoder. Headers and codecs are not possible."""
        check_bare(self.name, encoding_id, codec)
        if layout.schema_text:
            _check_columns(layout.columns, self.spark_schema(layout.schema_text))
        return CsvEncoder(layout.columns, Dialect.of(layout.settings))


def _check_columns(rows: T.StructType, table: T.StructType) -> None:
    row_columns = [(field.name, replace_char_types(field.dataType).simpleString()) for field in rows]
    table_columns = [(field.name, replace_char_types(field.dataType).simpleString()) for field in table]
    if row_columns != table_columns:
        shown, declared = (
            ", ".join(" ".join(column) for column in columns) for columns in (row_columns, table_columns)
        )
        raise InvalidSchemaError(f"the rows have the columns {shown}, but the table has {declared}, in this order")


class _Records:
    """Splits records into fields; None stands for a null."""

    def __init__(self, dialect: Dialect, columns: int) -> None:
        self._dialect = dialect
        self._columns = columns
        self._special = (dialect.quote, "\r", "\n")
        quote, escape = re.escape(dialect.quote), re.escape(dialect.escape)
        plain = f"[^{re.escape(dialect.delimiter)}{quote}\r\n]*"
        inside = f"[^{quote}]|{quote}{quote}" if dialect.escape == dialect.quote else f"[^{quote}{escape}]|{escape}."
        self._field = re.compile(f"{quote}((?:{inside})*+){quote}|({plain})", re.DOTALL)
        self._escaped = re.compile(f"{escape}(.)", re.DOTALL)

    def fields(self, payload: bytes) -> list[str | None]:
        """Split a payload into fields. Raises Undecodable with the reason if it is not a record of the table."""
        text = decode_text(payload)
        if not text and self._columns > 1:
            raise Undecodable("it is empty")
        if text.startswith(_BYTE_ORDER_MARK):
            raise Undecodable(
                "it begins with a byte order mark (U+FEFF), which would belong to its first field; let the writer "
                "encode in UTF-8 without one"
            )
        text = text.removesuffix("\n").removesuffix("\r")
        null = self._dialect.null
        texts: list[str | None]
        if any(sign in text for sign in self._special):
            texts = self._split_quoted(text)
        else:
            texts = [None if field == null else field for field in text.split(self._dialect.delimiter)]
        if len(texts) != self._columns:
            has, expected = format_count(len(texts), "field"), format_count(self._columns, "column")
            raise Undecodable(f"it has {has}, but the table has {expected}")
        return texts

    def _split_quoted(self, text: str) -> list[str | None]:
        texts: list[str | None] = []
        at = 0
        while True:
            match = self._field.match(text, at)
            assert match is not None  # an unquoted field may be empty
            at = match.end()
            quoted, plain = match.groups()
            if quoted is not None:
                texts.append(self._escaped.sub(r"\1", quoted))
            else:
                texts.append(None if plain == self._dialect.null else plain)
            if at == len(text):
                return texts
            if text[at] != self._dialect.delimiter:
                what = "a line break" if text[at] in "\r\n" else f"the character {text[at]!r}"
                raise Undecodable(f"it is not a CSV record: {what} at character {at} is out of place")
            at += 1


class _CsvReader(PayloadReader):
    def __init__(self, reader_schema: T.StructType, table: T.StructType, dialect: Dialect) -> None:
        struct = replace_char_types(reader_schema)
        column_numbers = {field.name: number for number, field in enumerate(table)}
        self._records = _Records(dialect, len(table))
        self._nothing = [None] * len(table)
        members = []
        for field in struct:
            if field.name not in column_numbers:
                raise InvalidSchemaError(f"the table has no column '{field.name}'")
            column = _Texts(make_column(field.dataType, field.name, None), _choose_parser(field.dataType))
            members.append(StructMember(column_numbers[field.name], column, field.nullable))
        self._columns = StructColumn("", find_arrow_type(struct), members, list)

    def arrays(self, payloads: EventBuffer, padded: bool, problems: Problems) -> list[pa.Array]:
        records = read_each(payloads, self._records.fields, problems, self._nothing)
        return self._columns.children(records, np.arange(len(records)), problems)


class _Texts(Column):
    """Builds a column whose values come as texts."""

    def __init__(self, column: Column, value: Callable[[str], Any] | None) -> None:
        super().__init__(column.path, column.type)
        self._column = column
        self._value = value

    def build(self, values: Sequence[Any], rows: Rows, problems: Problems) -> pa.Array:
        if self._value is not None:
            values = self.convert_each(self._value, values, rows, problems)
        return self._column.build(values, rows, problems)


def _choose_parser(data_type: T.DataType) -> Callable[[str], Any] | None:
    """Return a parser of texts into the values that a JSON document would have; None if that is the text itself."""
    match data_type:
        case T.BooleanType():
            return _parse_boolean
        case T.IntegralType():
            return _parse_integer
        case T.FloatType() | T.DoubleType():
            return _parse_floating
        case T.DecimalType():
            return _parse_number
    return None


def _parse_boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise Misfit(f"'{shorten_value(text)}' is neither true nor false")
    return text.lower() == "true"


def _parse_integer(text: str) -> int:
    if _INTEGER.fullmatch(text) is None or len(text) > _LONGEST_NUMBER:
        raise Misfit(f"'{shorten_value(text)}' is not a whole number")
    return int(text)


def _parse_floating(text: str) -> Any:
    if text in SPECIAL_FLOATS:
        return text
    return float(_parse_number(text).decode()) if len(text) < _LONGEST_NUMBER else _parse_number(text)


def _parse_number(text: str) -> NumberText:
    if _NUMBER.fullmatch(text) is None:
        raise Misfit(f"'{shorten_value(text)}' is not a number")
    return text.encode()


class CsvEncoder(BatchEncoder):
    """Writes rows as records: quotes only where they are needed, no line break at the end."""

    def __init__(self, schema: T.StructType, dialect: Dialect) -> None:
        super().__init__(schema, None, "")
        self._dialect = dialect
        struct = replace_char_types(schema)
        self._columns = [(_Quoted(field.name, dialect, field.dataType), field.nullable) for field in struct]

    def encode(self, batch: pa.RecordBatch) -> pa.LargeBinaryArray:
        struct = self.to_struct(batch)
        rows = np.arange(len(struct))
        null, delimiter = make_constant(self._dialect.null.encode()), make_constant(self._dialect.delimiter.encode())
        parts: list[Any] = []
        for (cells, nullable), array in zip(self._columns, batch.columns, strict=True):
            column = cells.cells(array, rows, nullable)
            parts += [delimiter, column.fill_null(null) if column.null_count else column]
        return self.frame(parts[1:], len(struct))


class _Quoted(Cells):
    """Writes cells as fields. Values of types other than string are written as in JSON."""

    def __init__(self, path: str, dialect: Dialect, data_type: T.DataType) -> None:
        super().__init__(path)
        self._dialect = dialect
        self._inner = None if isinstance(data_type, T.StringType) else make_cells(data_type, path)

    def write_present(self, array: pa.Array, rows: Rows) -> pa.LargeBinaryArray:
        if self._inner is None:
            cells = encode_valid_text(array, self, rows)
        else:
            # Dates, timestamps and bytes in JSON are strings without anything to escape.
            cells = pc.replace_substring(self._inner.write_present(array, rows), pattern=b'"', replacement=b"")
        dialect = self._dialect
        needed = pc.equal(cells, make_constant(dialect.null.encode()))
        for sign in {dialect.delimiter, dialect.quote, dialect.escape, "\r", "\n", _BYTE_ORDER_MARK}:
            needed = pc.or_(needed, pc.match_substring(cells, pattern=sign.encode()))
        if not pc.any(needed).as_py():
            return cells
        inside = cells
        for sign in dict.fromkeys((dialect.escape, dialect.quote)):
            inside = pc.replace_substring(inside, pattern=sign.encode(), replacement=(dialect.escape + sign).encode())
        quote = make_constant(dialect.quote.encode())
        return pc.if_else(needed, join_parts([quote, inside, quote], len(cells)), cells).cast(BINARY)
