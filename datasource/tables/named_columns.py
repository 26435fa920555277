"""Columns that a table's settings name as routing key or event time: which columns can be one, and their values.

A routing key is a column, or texts and columns put together, such as `concat(upper(site), '/', sensor)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as T

from pyspark_pravega.client.routing import hash_keys
from pyspark_pravega.errors import InvalidOptionError, InvalidRowError, UnsupportedTypeError
from pyspark_pravega.formats.core.columns import find_column
from pyspark_pravega.formats.core.spark_types import list_fields
from pyspark_pravega.sql.options import EVENT_TIME, ROUTING_KEY

from .table_settings import TableSettings

_KEY_TYPES = (T.StringType, T.IntegralType, T.BooleanType, T.DateType, T.DecimalType)
"""The types whose values have a unique text."""
_FUNCTIONS: Mapping[str, Callable[[str], str]] = {
    "upper": str.upper,
    "lower": str.lower,
    "trim": lambda text: text.strip(" "),
}
"""What a key may make of a text. As in Spark, "ß" becomes "SS"; Arrow's own function leaves it."""
_OF_LETTERS = ("upper", "lower")
"""Those that depend on the version of Unicode, and so on that of Python, for letters beyond ASCII."""
_TOKEN = re.compile(
    rf"""\s*(?:(?P<call>(?:{"|".join(_FUNCTIONS)})\s*\(\s*(?:[^\W\d]\w*|`(?:[^`]|``)+`)\s*\))"""
    r"""|(?P<name>[^\W\d]\w*)|`(?P<quoted>(?:[^`]|``)+)`|'(?P<text>[^'\\]*)'|(?P<sign>\|\||[(),]))\s*""",
    re.IGNORECASE,
)
_PLAIN_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class KeyPart:
    """A part of a routing key: the value of a column, as it is or by a function, or a text that is always the same."""

    column: str | None
    text: str = ""
    function: str | None = None

    def __str__(self) -> str:
        if self.column is None:
            return f"'{self.text}'"
        escaped = self.column.replace("`", "``")
        name = self.column if _PLAIN_NAME.fullmatch(self.column) else f"`{escaped}`"
        return name if self.function is None else f"{self.function}({name})"

    def texts(self, batch: pa.RecordBatch) -> pa.Array | pa.Scalar:
        """Return the text of each row, or the one of all rows. No value is null."""
        if self.column is None:
            return pa.scalar(self.text)
        texts = pc.cast(batch.column(self.column), pa.string())
        if self.function is None:
            return texts
        distinct = texts.dictionary_encode()
        values = map(_FUNCTIONS[self.function], distinct.dictionary.to_pylist())
        return pa.array(values, pa.string()).take(distinct.indices)


@dataclass(frozen=True)
class RoutingKey:
    """The parts whose texts, one after the other, are the routing key of a row. Its text is what tables keep.

    Examples
    --------
    >>> columns = StructType().add("site", "string").add("sensor", "integer")
    >>> str(RoutingKey.of("site || '/' || SENSOR", columns))
    "concat(site, '/', sensor)"
    """

    parts: tuple[KeyPart, ...]

    @classmethod
    def of(cls, text: str, columns: T.StructType) -> RoutingKey:
        """Return the key that a `routing-key` names or describes, with the exact names of columns.

        Raises InvalidOptionError for a text that is neither a column nor such an expression, UnsupportedTypeError for
        a column whose values have no unique text.
        """
        is_name = not any(sign in text for sign in "('|`") or text in columns.fieldNames()
        parts = [KeyPart(text)] if is_name else _parse(text)
        return cls(tuple(part if part.column is None else _spell(text, part, columns) for part in parts))

    def __str__(self) -> str:
        if len(self.parts) == 1:
            only = self.parts[0]
            return str(only.column if only.function is None else only)
        return f"concat({', '.join(map(str, self.parts))})"

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns in it, each once."""
        return list(dict.fromkeys(part.column for part in self.parts if part.column is not None))

    def is_certain(self, batch: pa.RecordBatch) -> bool:
        """Return whether every version of Python makes the same keys of these rows."""
        texts = [part.texts(batch) for part in self.parts if part.function in _OF_LETTERS]
        return all(pc.all(pc.string_is_ascii(each), min_count=0).as_py() for each in texts)

    def is_same(self, other: RoutingKey) -> bool:
        """Return whether two keys differ in the case of their columns' names at most."""
        return self._folded() == other._folded()

    def _folded(self) -> list[KeyPart]:
        return [replace(part, column=part.column and part.column.lower()) for part in self.parts]

    def texts(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the key of each row, as a column of one type of text or of the key's only column.

        Raises InvalidRowError if a row has none.
        """
        for name in self.columns:
            if batch.column(name).null_count:
                of = "" if len(self.parts) == 1 else f" '{self}' has no value, because column"
                raise InvalidRowError(
                    f"the routing key{of} '{name}' is null in a row, but every event needs a key: filter such rows "
                    f"out, or give them a value with coalesce({name}, ...)"
                )
        if len(self.parts) == 1 and self.parts[0].function is None:
            return batch.column(self.columns[0])
        return pc.binary_join_element_wise(*(part.texts(batch) for part in self.parts), "")


def _spell(key: str, part: KeyPart, columns: T.StructType) -> KeyPart:
    name = str(part.column)
    column = find_column(ROUTING_KEY.key, name, columns)
    if part.function is not None and not isinstance(column.dataType, T.StringType):
        raise UnsupportedTypeError(
            f"'routing-key'='{key}' takes {part.function} of column '{name}', which is of type "
            f"{column.dataType.simpleString()}. {part.function} is for strings: write the column alone."
        )
    if not isinstance(column.dataType, _KEY_TYPES):
        is_it = "is" if name == key else f"has column '{name}', which is"
        raise UnsupportedTypeError(
            f"'routing-key'='{key}' {is_it} a column of type {column.dataType.simpleString()}, whose values have no "
            "unique text. Allowed are strings, whole numbers, decimals, booleans and dates."
        )
    return replace(part, column=column.name)


def _parse(text: str) -> list[KeyPart]:
    tokens = list(_split_tokens(text))
    if [token.lower() for _, token in tokens[:2]] == ["concat", "("] and tokens[-1:] == [("sign", ")")]:
        tokens, separator = tokens[2:-1], ","
    else:
        separator = "||"
    parts = [_make_part(kind, token) for kind, token in tokens[::2]]
    between = tokens[1::2]
    well_formed = len(tokens) % 2 == 1 and all(kind != "sign" for kind, _ in tokens[::2])
    if not well_formed or any(token != ("sign", separator) for token in between):
        raise _make_refusal(text)
    if all(part.column is None for part in parts):
        raise InvalidOptionError(f"'routing-key'='{text}' has no column, so all events would have the same key.")
    return parts


def _make_part(kind: str, token: str) -> KeyPart:
    if kind == "text":
        return KeyPart(None, token)
    if kind == "call":
        function, argument = token[:-1].split("(", 1)
        (_, column), *_ = _split_tokens(argument)
        return KeyPart(column, function=function.strip().lower())
    return KeyPart(token)


def _split_tokens(text: str) -> Iterator[tuple[str, str]]:
    matches = list(_TOKEN.finditer(text))
    if "".join(match[0] for match in matches) != text:
        raise _make_refusal(text)
    for match in matches:
        kind = str(match.lastgroup)
        yield ("name", match[kind].replace("``", "`")) if kind == "quoted" else (kind, match[kind])


def _make_refusal(text: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"'routing-key'='{text}' is neither a column nor an expression that a key can be. Put columns and texts "
        f"together, for example concat(site, '/', sensor) or site || '/' || sensor, with {', '.join(_FUNCTIONS)} of "
        "columns that are strings, such as upper(site). For any other expression, add a column that has its value."
    )


_TIMES = (T.TimestampType, T.TimestampNTZType, T.DateType, T.LongType)
"""The types that an event time can have."""


def resolve_event_time_column(name: str, columns: T.StructType) -> str:
    """Return the exact name of the column that an `event-time` names in any case.

    Raises InvalidOptionError if there is no such column, UnsupportedTypeError for one whose values are not times.
    """
    column = find_column(EVENT_TIME.key, name, columns)
    if not isinstance(column.dataType, _TIMES):
        raise UnsupportedTypeError(
            f"'event-time'='{name}' is a column of type {column.dataType.simpleString()}, whose values are not times. "
            "Allowed are TIMESTAMP, TIMESTAMP_NTZ (as UTC), DATE, and BIGINT for milliseconds since 1970."
        )
    return column.name


def find_latest_time(column: pa.Array) -> int | None:
    """Return the latest time of a column in milliseconds since 1970, None if it has no times."""
    latest = pc.max(column)
    if not latest.is_valid:
        return None
    if pa.types.is_timestamp(latest.type):
        return int(latest.cast(pa.timestamp("us", tz=latest.type.tz)).value // 1000)
    if pa.types.is_date(latest.type):
        return int(latest.cast(pa.date32()).value) * 86_400_000
    return int(latest.as_py())


def compute_key_positions(values: pa.Array) -> npt.NDArray[np.float64]:
    """Return the position of each value's text in the key space. No value is null.

    Raises InvalidRowError for a text that is too long.
    """
    return hash_keys(values if pa.types.is_string(values.type) else pc.cast(values, pa.string()))


def spell_columns(settings: TableSettings, columns: T.StructType) -> TableSettings:
    """Return settings that spell the columns they name exactly.

    Raises InvalidOptionError for a missing column, UnsupportedTypeError for one whose type does not fit its role.
    """
    if settings.routing_key is not None:
        settings = replace(settings, routing_key=str(RoutingKey.of(settings.routing_key, columns)))
    if settings.event_time is not None:
        settings = replace(settings, event_time=resolve_event_time_column(settings.event_time, columns))
    return settings


def iterate_names(type: T.DataType) -> Iterator[str]:
    """Yield the names of all fields of a type, nested ones included."""
    for field in list_fields(type):
        if isinstance(type, T.StructType):
            yield field.name
        yield from iterate_names(field.dataType)
