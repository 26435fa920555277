"""Define what an option is, and how the text of its value becomes a typed value.

The text comes from people (SQL, conf files, environment), so every parser says what it accepts: a parser
raises `ValueError` with a sentence that completes "value ... : ", and `options.resolve` adds key and value.
"""

from __future__ import annotations

import contextlib
import enum
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import Generic, TypeVar, cast

T = TypeVar("T")


class SettableAs(enum.Flag):
    """Where an option may be set: usually in several places."""

    START = enum.auto()
    """Catalog conf, `spark.sql.catalog.<name>.<key>`, as the driver's conf had it when the driver started."""
    SESSION = enum.auto()
    """Catalog conf that a session has set since then; where to connect, and as whom, is no matter of sessions."""
    PROPERTY = enum.auto()
    """Table property: `TBLPROPERTIES ('<key>'='...')`."""
    READ = enum.auto()
    """Option of a read: `spark.read.option(...)`, `SELECT ... FROM t WITH ('<key>'='...')`."""
    WRITE = enum.auto()
    """Option of a write: `df.write.option(...)`, `INSERT INTO t WITH ('<key>'='...')`."""
    SCRIPT = enum.auto()
    """Setting of a script that `pyspark-pravega run` runs: `SET <key> = ...`."""
    CATALOG = START | SESSION
    """Catalog conf, set at any time before the session uses the catalog."""

    def describe(self) -> str:
        """Name the places in words, as a list."""
        return ", ".join(self._list_words())

    def alternatives(self) -> str:
        """Name the places as a choice in a sentence: `a catalog conf or a read option`."""
        *others, last = (f"a {words}" for words in self._list_words())
        return f"{', '.join(others)} or {last}" if others else last

    def _list_words(self) -> list[str]:
        conf = [] if SettableAs.START not in self else [_CONF if SettableAs.SESSION in self else _CONF_AT_START]
        return conf + [words for use, words in _WORDS.items() if use in self]


_CONF = "catalog conf"
_CONF_AT_START = "catalog conf at the driver's start"
_WORDS = {
    SettableAs.PROPERTY: "table property",
    SettableAs.READ: "read option",
    SettableAs.WRITE: "write option",
    SettableAs.SCRIPT: "script setting",
}


@dataclass(frozen=True)
class OptionType(Generic[T]):
    """A kind of value: its name and grammar for the documentation, and its parser."""

    name: str
    parse: Callable[[str], T]
    """Turn stripped, non-empty text into the value. Raises ValueError that says what is allowed."""


@dataclass(frozen=True)
class Option(Generic[T]):
    """One named option. The text below its declaration is what users read of it."""

    key: str
    type: OptionType[T]
    allowed: SettableAs
    default_text: str | None = None
    """The default as a user would write it; None where there is no default, which only an `optional` type allows."""
    _: KW_ONLY
    secret: bool = False
    """The value is never shown, nor accepted as a table property (those are stored in the clear)."""
    env: str | None = None
    """Environment variable that counts when the option is set nowhere else."""
    connection: bool = False
    """Says how to reach the servers. Belongs to the reader, never to the table."""
    formats: tuple[str, ...] = ()
    """Only these formats know the option; its text is handed to their decoders and encoders."""
    hint: str = ""
    """Further help for a user who needs the option and has not set it."""
    of_changes: bool = False
    """Every format whose events are changes of rows knows the option, including formats of other distributions."""
    property_type: OptionType[T] | None = None
    """What a table property may be, if that is less than elsewhere: everybody who reads the table uses its text."""

    @cached_property
    def default(self) -> T:
        """Return the value that counts when nobody set the option."""
        return cast(T, None) if self.default_text is None else self.type.parse(self.default_text)

    @property
    def of_formats(self) -> bool:
        """Return whether the option is a setting of some formats only."""
        return bool(self.formats) or self.of_changes

    def is_known_to(self, format: str, changes: bool) -> bool:
        """Return whether the option is a setting of a format; `changes` says whether its events are changes of rows."""
        return format in self.formats or (self.of_changes and changes)


def _parse_duration(text: str) -> timedelta:
    match = re.fullmatch(r"(\d+)\s*([a-z]+)", text.lower())
    if match is None or match[2] not in _DURATION_UNITS:
        raise ValueError("expected a whole number and a unit (ms, s, min, h, d), for example 500ms, 10s, 5min, 1h, 2d")
    try:
        return int(match[1]) * _DURATION_UNITS[match[2]]
    except OverflowError:
        raise ValueError("the duration is too long, write less than 999999999d") from None


_DURATION_UNITS: Mapping[str, timedelta] = {
    name: unit
    for unit, names in [
        (timedelta(milliseconds=1), "ms milli millis millisecond milliseconds"),
        (timedelta(seconds=1), "s sec secs second seconds"),
        (timedelta(minutes=1), "m min mins minute minutes"),
        (timedelta(hours=1), "h hour hours"),
        (timedelta(days=1), "d day days"),
    ]
    for name in names.split()
}


def format_duration(milliseconds: int) -> str:
    """Return a duration as options write it, in the largest unit without a rest."""
    return _format_amount(milliseconds, ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms")))


def format_byte_size(size: int) -> str:
    """Return a number of bytes as options write it, in the largest unit without a rest."""
    return _format_amount(size, ((1 << 40, "t"), (1 << 30, "g"), (1 << 20, "m"), (1 << 10, "k"), (1, "b")))


def _format_amount(amount: int, units: Sequence[tuple[int, str]]) -> str:
    size, unit = next((size, unit) for size, unit in units if amount % size == 0)
    return f"{amount // size}{unit}"


def _parse_trigger(text: str) -> timedelta | str:
    words = " ".join(text.lower().replace("-", " ").split())
    if words in ("available now", "once"):
        return words
    try:
        return _parse_duration(words)
    except ValueError:
        raise ValueError("expected an interval such as 10 seconds or 5 min, or: available now, once") from None


def _parse_byte_size(text: str) -> int:
    match = re.fullmatch(r"(\d+)\s*([kmgtp]?)(i?b)?", text.lower())
    if match is None or (match[3] == "ib" and not match[2]):
        raise ValueError(
            "expected a whole number of bytes with an optional unit k, m, g or t (powers of 1024), "
            "for example 64k, 16m, 1g"
        )
    return int(match[1]) << (10 * " kmgtp".index(match[2] or " "))


def _parse_boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


def _parse_uri(text: str) -> str:
    # The text would end up in messages and logs, so credentials must not hide in it.
    if "@" in text:
        raise ValueError("a URI must not hold credentials; use security.username, or for Confluent confluent.username")
    return text


def _parse_directory(text: str) -> str:
    if re.match(r"[a-z][a-z0-9+.-]*://[^@]*:[^@]*@", text, re.IGNORECASE):
        raise ValueError("a URI must not hold credentials; put them into Hadoop's configuration")
    if not re.match(r"([a-z][a-z0-9+.-]*:)?/", text, re.IGNORECASE):
        raise ValueError(
            "expected the absolute path or the URI of a directory, for example hdfs://namenode/rows, s3a://bucket/rows "
            "or file:/shared/rows"
        )
    return text


def between(option_type: OptionType[T], low_text: str, high_text: str | None = None) -> OptionType[T]:
    """Restrict an ordered type to two texts, both allowed, or from below only."""
    bounds = f"at least {low_text}" if high_text is None else f"{low_text} to {high_text}"
    low, high = option_type.parse(low_text), None if high_text is None else option_type.parse(high_text)

    def parse(text: str) -> T:
        value = option_type.parse(text)
        if value < low or (high is not None and value > high):  # type: ignore[operator]
            raise ValueError(f"out of range; allowed: {bounds}")
        return value

    return OptionType(f"{option_type.name}, {bounds}", parse)


def whole_number(low: int, high: int | None = None) -> OptionType[int]:
    """Accept a decimal integer in low..high."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,18}", text):
            raise ValueError("expected a whole number")
        return int(text)

    return between(OptionType("whole number", parse), str(low), None if high is None else str(high))


def one_of(*names: str) -> OptionType[str]:
    """Accept one of the names, in any case; the value is the name as given here."""

    def parse(text: str) -> str:
        if text.lower() not in names:
            raise ValueError(f"expected one of {', '.join(names)}")
        return text.lower()

    return OptionType(" or ".join(f"`{name}`" for name in names), parse)


def _parse_names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ValueError("expected different names, separated by commas, for example a,b")
    return names


def _parse_scopes(text: str) -> bool | tuple[str, ...]:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    with contextlib.suppress(ValueError):
        names = _parse_names(text)
        if all(re.fullmatch(r"[A-Za-z0-9._-]+", name) and name.lower() not in _SWITCHES for name in names):
            return names
    raise ValueError("expected true, false, or names of scopes separated by commas, for example iot,shop")


def _parse_pattern(text: str) -> str:
    find_matches(text, [])
    return text


def find_matches(pattern: str, names: Sequence[str]) -> list[str]:
    """Return the names that a regular expression matches as a whole, in their order.

    Arrow's RE2 takes time in proportion to the text, whatever the expression, which may be somebody else's. So it has
    no look-around and no references to groups. Raises ValueError for an expression that it does not take.
    """
    import pyarrow as pa  # most commands have no pattern
    import pyarrow.compute as pc

    try:
        # Alone first: `a)|(b` would be an expression only between the parentheses.
        pc.match_substring_regex(pa.array([""]), pattern=pattern)
        matches = pc.match_substring_regex(pa.array(names, pa.string()), pattern=rf"\A(?:{pattern})\z")
    except pa.ArrowInvalid as error:
        reason = str(error).partition(": ")[2] or str(error)
        raise ValueError(
            f"expected a regular expression that RE2 takes, for example sensor-.* ({reason}). It has no look-around "
            "and no references to groups"
        ) from None
    return [name for name, matches_pattern in zip(names, matches.to_pylist(), strict=True) if matches_pattern]


def _parse_format_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", text):
        raise ValueError("expected the name of a format: avro, csv, json, protobuf, raw, text or an installed one")
    return text.lower()


_SWITCHES = ("true", "false", "yes", "no", "on", "off", "1", "0", "all", "none")
"""What is not the name of a scope where a list of scopes may be `true` or `false` too."""


def optional(option_type: OptionType[T]) -> OptionType[T | None]:
    """Accept the same text, for an option whose default is "not set" (None)."""
    return OptionType(option_type.name, option_type.parse)


def _parse_json(text: str) -> str:
    if text[0] not in "{[":
        raise ValueError(
            "expected JSON that begins with { or [. A table property cannot be the path of a file, which would be "
            "opened with the rights of whoever reads the table: set the JSON itself, by ALTER TABLE ... SET "
            "TBLPROPERTIES, or give the path as a read option"
        )
    return text


def _parse_lake_properties(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict) or not value or not all(isinstance(one, str) for one in value.values()):
        raise ValueError('expected a JSON object whose values are texts, for example {"type": "rest", "uri": "..."}')
    if any(key.lower().startswith("lake.") for key in value):
        raise ValueError("expected names of pyiceberg's properties, such as type: leave their prefix lake. out")
    return text


def _parse_timestamp(text: str) -> datetime:
    moment = None
    with contextlib.suppress(ValueError, OverflowError, OSError):
        number = re.fullmatch(r"\d{1,15}", text)
        moment = datetime.fromtimestamp(int(text) / 1000, UTC) if number else datetime.fromisoformat(text)
    if moment is None or moment.tzinfo is None:
        raise ValueError(
            "expected a time with its zone, for example 2026-01-31T12:00:00Z or 2026-01-31T12:00:00+01:00, or "
            "milliseconds since 1970"
        )
    return moment


def _match(pattern: str, expected: str, text: str) -> str:
    if not re.fullmatch(pattern, text):
        raise ValueError(f"expected {expected}")
    return text


_TABLE = "<namespace>.<table>, with letters, digits, _ and -, for example lake.sensor"
_ATTRIBUTE = "module:attribute, for example mycompany.pravega_login:Credentials"

CONSUMER_NAME = OptionType("name", partial(_match, r"[A-Za-z0-9.-]+", "letters, digits, . and -"))
NAME_IN_LAKE = OptionType("`<namespace>.<table>`", partial(_match, r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+", _TABLE))
FORMAT_NAME = OptionType(
    "`avro`, `csv`, `json`, `protobuf`, `raw`, `text`, or an installed format's name", _parse_format_name
)
TEXT = OptionType("text", lambda text: text)
BOOLEAN = OptionType("`true` or `false`", _parse_boolean)
DURATION = OptionType("duration (`500ms`, `10s`, `5min`, `1h`, `2d`)", _parse_duration)
BYTE_SIZE = OptionType("bytes (`64k`, `16m`, `1g`)", _parse_byte_size)
TRIGGER = OptionType("duration, `available now` or `once`", _parse_trigger)
TIMESTAMP = OptionType("time (`2026-01-31T12:00:00Z`, or milliseconds since 1970)", _parse_timestamp)
URI = OptionType("URI", _parse_uri)
DIRECTORY = OptionType("URI of a directory", _parse_directory)
NAMES = OptionType("names, separated by commas", _parse_names)
SCOPES = OptionType("`true`, `false`, or names of scopes, separated by commas", _parse_scopes)
PATTERN = OptionType("regular expression", _parse_pattern)
JSON_TEXT = OptionType("JSON", _parse_json)
LAKE_PROPERTIES = OptionType("JSON", _parse_lake_properties)
PLUG_IN = OptionType("`module:attribute`", partial(_match, r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", _ATTRIBUTE))
PLUG_IN_OR_FILE = OptionType(
    "path or `module:attribute`", lambda text: text if text.startswith("/") else PLUG_IN.parse(text)
)


def stream_cut(*names: str) -> OptionType[str]:
    """Accept a stream cut's text, or one of the names in any case."""
    return OptionType(
        f"{', '.join(f'`{name}`' for name in names)} or a stream cut's text",
        lambda text: text.lower() if text.lower() in names else text,
    )


START, PROPERTY, SCRIPT = SettableAs.START, SettableAs.PROPERTY, SettableAs.SCRIPT
READ, WRITE = SettableAs.READ, SettableAs.WRITE
QUERY = READ | WRITE
CONNECTION = START | QUERY
TABLE = PROPERTY | QUERY
READS = SettableAs.CATALOG | READ
WRITES = SettableAs.CATALOG | WRITE
