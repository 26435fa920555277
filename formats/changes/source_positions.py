"""Reads the positions of changes in a database's log from the source blocks of events, singly or in columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.errors import MalformedEventError

from ..core.arrow_types import make_array
from ..core.scalars import FIRST_MICROS, LAST_MICROS
from .encodings.times import limit_to_range
from .feed import POSITION_TYPE, replace_surrogates

Position = tuple[str | None, int | None, int | None, int | None, int | None]
"""Origin, major, minor, row and the time in microseconds since 1970; all None where nothing is known."""

Numbers = npt.NDArray[np.int64]

NO_POSITION: Position = (None, None, None, None, None)

_FILE = re.compile(r"(.*?)\.?(\d{1,18})")
_HEX = re.compile(r"([0-9a-fA-F]{8}):([0-9a-fA-F]{8}):([0-9a-fA-F]{4})")
_LIMIT = 1 << 63


def read_micros(block: Mapping[str, Any]) -> int | None:
    """Return the time of a source block or an envelope. Newer versions also have it in finer units."""
    micros = block.get("ts_us")
    if type(micros) is int:
        return micros
    millis = block.get("ts_ms")
    return millis * 1_000 if type(millis) is int else None


def read_positions(sources: Sequence[Mapping[str, Any] | None]) -> list[Position]:
    """Return the position of each source block, NO_POSITION where there is none."""
    return [NO_POSITION if source is None else read_position(source) for source in sources]


def compute_commit_versions(origin: str, major: Numbers, minor: Numbers) -> Numbers:
    """Return one number for each position of an origin, in the same order.

    Where both numbers of a position count, they are combined: 40 bits for the place in a binlog file; for SQL Server's
    LSN 24 bits for the virtual log file (from bit 39), 23 for the block in it, 16 for the slot in the block. Raises
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
                f"The number {number} in a position of {origin} has more than {width} bits, so positions cannot be "
                "ordered as versions. Read the table, or its changelog."
            )
        versions = (versions << width) + numbers
    return versions


def _make_origin(source: Mapping[str, Any]) -> str:
    return replace_surrogates(f"{source.get('connector')}/{source.get('name')}/{source.get('db')}")


def read_position(source: Mapping[str, Any]) -> Position:
    """Return the position in a source block; it has no origin if the block has no position."""
    time = read_micros(source)
    lsn = source.get("lsn")
    if type(lsn) is int and 0 <= lsn < _LIMIT:
        return _make_origin(source), lsn, 0, 0, time
    if source.get("file") is not None:
        return _read_binlog_position(source, time)
    if (change := source.get("change_lsn")) is not None:
        match = _HEX.fullmatch(str(change))
        if match is not None:
            serial = source.get("event_serial_no")
            major = int(match[1] + match[2], 16)
            if major < _LIMIT:
                row = _read_small_number(serial)
                return _make_origin(source), major, int(match[3], 16), row, time
    scn = source.get("scn")
    if scn is not None and re.fullmatch(r"\d{1,18}", str(scn)):
        return _make_origin(source), int(str(scn)), 0, 0, time
    return None, None, None, None, time


def _read_small_number(number: Any) -> int:
    return number if type(number) is int and 0 <= number < _LIMIT else 0


def split_binlog_name(name: str) -> tuple[str, int] | None:
    """Split the name of a binlog file into a prefix and its number; return None if it has no number."""
    match = _FILE.fullmatch(name)
    return None if match is None else (match[1], int(match[2]))


def _read_binlog_position(source: Mapping[str, Any], time: int | None) -> Position:
    file = split_binlog_name(str(source["file"]))
    position, row = source.get("pos"), source.get("row")
    if file is None or type(position) is not int or not 0 <= position < _LIMIT:
        return None, None, None, None, time
    origin = replace_surrogates(f"{source.get('connector')}/{source.get('name')}/{source.get('server_id')}/{file[0]}")
    return origin, file[1], position, _read_small_number(row), time


SOURCE_TYPE = pa.struct(
    {
        **dict.fromkeys("connector name db file change_lsn scn".split(), pa.string()),
        **dict.fromkeys("ts_ms ts_us lsn pos row server_id event_serial_no".split(), pa.int64()),
    }
)
"""The members of a source block that define the position. Blocks with other types there are read one by one."""

_MILLI = pa.scalar(1000, pa.int64())


def make_timestamps(micros: pa.Array, millis: pa.Array) -> pa.Array:
    """Make timestamps from microseconds, or from milliseconds where there are none; null beyond the year 9999."""
    chosen = limit_to_range(micros, FIRST_MICROS, LAST_MICROS)
    if micros.null_count:
        scaled = pc.multiply(limit_to_range(millis, FIRST_MICROS // 1000, LAST_MICROS // 1000), _MILLI)
        # A number of microseconds that is out of range still takes precedence, and gives null.
        chosen = pc.if_else(micros.is_valid(), chosen, scaled)
    return chosen.view(pa.timestamp("us", "UTC"))


def make_position_arrays(source: pa.StructArray) -> dict[str, pa.Array]:
    """Return the members of POSITION for source blocks with at least SOURCE_TYPE; null where there is no block."""
    block = dict(zip(source.type.names, source.flatten(), strict=True))
    count = len(source)
    lsn = _fill(block["lsn"], -1)
    by_lsn = lsn >= 0
    times = make_timestamps(block["ts_us"], block["ts_ms"])
    if by_lsn.all():
        zero = make_array(np.zeros(count, np.int64))
        origins = _make_origins(block, ("connector", "name", "db"))
        return {"origin": origins, "major": make_array(lsn), "minor": zero, "row": zero, "time": times}
    offsets = _fill(block["pos"], -1)
    prefixes, files = _split_binlog_names(block["file"])
    by_binlog = block["lsn"].is_null().to_numpy(False) & (offsets >= 0) & (files >= 0)
    origin = pa.nulls(count, pa.string())
    for chosen, members in ((by_lsn, ("name", "db")), (by_binlog, ("name", "server_id", "prefix"))):
        if chosen.any():
            origins = _make_origins({**block, "prefix": prefixes}, ("connector", *members))
            origin = pc.if_else(pa.array(chosen), origins, origin)
    numbers = {
        "major": np.where(by_lsn, lsn, files),
        "minor": np.where(by_lsn, 0, offsets),
        "row": np.where(by_lsn, 0, np.maximum(_fill(block["row"], 0), 0)),
    }
    unread = ~by_lsn & ~by_binlog
    arrays = {"origin": origin} | {name: pa.array(values, mask=unread) for name, values in numbers.items()}
    arrays["time"] = times
    tells = np.zeros(count, np.bool_)
    for name in ("file", "change_lsn", "scn"):
        tells |= block[name].is_valid().to_numpy(False)
    others = np.flatnonzero(unread & tells)
    if len(others):
        _replace_one_by_one(source, others, arrays)
    return arrays


def _make_origins(block: Mapping[str, pa.Array], names: Sequence[str]) -> pa.Array:
    """Join the texts of some members by slashes; almost always they are the same in all blocks."""
    coded = [block[name].dictionary_encode() for name in names]
    if all(len(one.dictionary) == 1 and not one.null_count for one in coded):
        text = "/".join(str(one.dictionary[0].as_py()) for one in coded)
        return pa.repeat(text, len(coded[0]))
    return pc.binary_join_element_wise(*(_write_text(block[name]) for name in names), "/")


def _replace_one_by_one(source: pa.StructArray, rows: Numbers, arrays: dict[str, pa.Array]) -> None:
    """Replace the members at these rows by what `read_positions` finds."""
    positions = read_positions(source.take(pa.array(rows)).to_pylist())
    order = np.arange(len(source))
    order[rows] = len(source) + np.arange(len(rows))
    for name, values in zip(("origin", "major", "minor", "row"), zip(*positions, strict=True), strict=False):
        both = pa.concat_arrays([arrays[name], pa.array(values, POSITION_TYPE.field(name).type)])
        arrays[name] = both.take(pa.array(order))


def _split_binlog_names(files: pa.Array) -> tuple[pa.Array, Numbers]:
    """Split the names of binlog files into prefixes and numbers, -1 where there is no number."""
    coded = files.dictionary_encode()
    parts = [split_binlog_name(name) or (None, -1) for name in coded.dictionary.to_pylist()]
    prefixes = pa.array([prefix for prefix, _ in parts], pa.string()).take(coded.indices)
    numbers = np.array([*(number for _, number in parts), -1], np.int64)
    return prefixes, numbers[_fill(coded.indices, len(parts))]


def _write_text(values: pa.Array) -> pa.Array:
    texts = values if pa.types.is_string(values.type) else values.cast(pa.string())
    return pc.fill_null(texts, "None") if texts.null_count else texts


def _fill(values: pa.Array, value: int) -> Numbers:
    whole = pc.fill_null(values, value) if values.null_count else values
    numbers: Numbers = whole.to_numpy(zero_copy_only=False)
    return numbers
