"""Reads where in a database's log a change is, from the source block of its event.

| connector | major, minor, row |
|---|---|
| PostgreSQL | LSN |
| MySQL, MariaDB | number of the binlog file, position in it, row in the event |
| SQL Server, Db2 | the change's LSN (two numbers), serial number of the event |
| Oracle | SCN |
| Maxwell | number of the binlog file, position in it |

Positions can be compared when they have the same origin: connector, logical name and, for binlogs, server and name of
the files. Changes of one row are in this order in the database, too, because each waits for the other's commit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pyspark_pravega.errors import MalformedEventError

from .feed import utf8

Position = tuple[str | None, int | None, int | None, int | None, int | None]
"""Origin, major, minor, row and the time in microseconds since 1970; all None where nothing is known."""

Numbers = npt.NDArray[np.int64]

NO_POSITION: Position = (None, None, None, None, None)

_FILE = re.compile(r"(.*?)\.?(\d{1,18})")
_HEX = re.compile(r"([0-9a-fA-F]{8}):([0-9a-fA-F]{8}):([0-9a-fA-F]{4})")
_LIMIT = 1 << 63


def micros_of_block(block: Mapping[str, Any]) -> int | None:
    """Return the time of a source block or an envelope. Newer versions give it in finer units, too."""
    for key, scale in (("ts_us", 1), ("ts_ms", 1_000)):
        value = block.get(key)
        if type(value) is int:
            return value * scale
    return None


def positions_of(sources: Sequence[Mapping[str, Any] | None]) -> list[Position]:
    """Return the position of each source block, NO_POSITION where there is none."""
    origins: dict[tuple[Any, Any, Any], str] = {}
    found: list[Position] = []
    for source in sources:
        if source is None:
            found.append(NO_POSITION)
            continue
        lsn = source.get("lsn")
        if type(lsn) is not int or not 0 <= lsn < _LIMIT:
            found.append(position_of(source))
            continue
        names = str(source.get("connector")), str(source.get("name")), str(source.get("db"))
        origin = origins.get(names)
        if origin is None:
            origin = origins[names] = _origin(source)
        micros = source.get("ts_us")
        found.append((origin, lsn, 0, 0, micros if type(micros) is int else micros_of_block(source)))
    return found


def commit_versions(origin: str, major: Numbers, minor: Numbers) -> Numbers:
    """Return one number for each position of an origin, in the same order.

    The two numbers of a position are put together where both count: 40 bits for the place in a binlog file; of SQL
    Server's LSN 24 bits for the virtual log file (from bit 39), 23 for the block in it, 16 for the slot in that. Raises
    MalformedEventError for a position with larger numbers.
    """
    connector = origin.partition("/")[0]
    parts: list[tuple[Numbers, int]]
    if connector in ("mysql", "mariadb", "maxwell"):
        parts = [(major, 23), (minor, 40)]
    elif connector in ("sqlserver", "db2"):
        parts = [(major >> 32, 24), (major & 0xFFFFFFFF, 23), (minor, 16)]
    else:
        return major
    versions = np.zeros(len(major), np.int64)
    for numbers, width in parts:
        for number in numbers[numbers >> width != 0][:1].tolist():
            raise MalformedEventError(
                f"The number {number} in a position of {origin} has more than {width} bits, so that positions have no "
                "order as versions. Read the table, or its changelog."
            )
        versions = (versions << width) + numbers
    return versions


def _origin(source: Mapping[str, Any]) -> str:
    return _clean(f"{source.get('connector')}/{source.get('name')}/{source.get('db')}")


def _clean(text: str) -> str:
    """Return the text without halves of surrogate pairs, which are no characters to Arrow."""
    return text if text.isascii() else utf8(text).decode()


def position_of(source: Mapping[str, Any]) -> Position:
    """Return the position that a source block tells; without an origin where it tells none."""
    time = micros_of_block(source)
    lsn = source.get("lsn")
    if type(lsn) is int and 0 <= lsn < _LIMIT:
        return _origin(source), lsn, 0, 0, time
    if source.get("file") is not None:
        return _binlog(source, time)
    if (change := source.get("change_lsn")) is not None:
        match = _HEX.fullmatch(str(change))
        if match is not None:
            serial = source.get("event_serial_no")
            major = int(match[1] + match[2], 16)
            if major < _LIMIT:
                row = _small(serial)
                return _origin(source), major, int(match[3], 16), row, time
    scn = source.get("scn")
    if scn is not None and re.fullmatch(r"\d{1,18}", str(scn)):
        return _origin(source), int(str(scn)), 0, 0, time
    return None, None, None, None, time


def _small(number: Any) -> int:
    return number if type(number) is int and 0 <= number < _LIMIT else 0


def file_of_binlog(name: str) -> tuple[str, int] | None:
    """Return what stands before the number of a binlog file, and the number; None where there is none."""
    match = _FILE.fullmatch(name)
    return None if match is None else (match[1], int(match[2]))


def _binlog(source: Mapping[str, Any], time: int | None) -> Position:
    file = file_of_binlog(str(source["file"]))
    place, row = source.get("pos"), source.get("row")
    if file is None or type(place) is not int or not 0 <= place < _LIMIT:
        return None, None, None, None, time
    origin = _clean(f"{source.get('connector')}/{source.get('name')}/{source.get('server_id')}/{file[0]}")
    return origin, file[1], place, _small(row), time
