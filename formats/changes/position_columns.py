"""Finds the positions of many changes at once, from columns of source blocks. They equal those of `positions`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..core.scalars import FIRST_MICROS, LAST_MICROS
from .encodings.times import within
from .feed import POSITION_TYPE
from .positions import file_of_binlog, positions_of

SOURCE_TYPE = pa.struct(
    [
        ("connector", pa.string()),
        ("name", pa.string()),
        ("db", pa.string()),
        ("ts_ms", pa.int64()),
        ("ts_us", pa.int64()),
        ("lsn", pa.int64()),
        ("file", pa.string()),
        ("pos", pa.int64()),
        ("row", pa.int64()),
        ("server_id", pa.int64()),
        ("change_lsn", pa.string()),
        ("event_serial_no", pa.int64()),
        ("scn", pa.string()),
    ]
)
"""The members of a source block that tell the position. Blocks with other types there are read one by one."""

_MILLI = pa.scalar(1000, pa.int64())

_Numbers = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]


def timestamps(micros: pa.Array, millis: pa.Array) -> pa.Array:
    """Return times from numbers of microseconds, or of milliseconds where there are none; null beyond the year 9999."""
    chosen = within(micros, FIRST_MICROS, LAST_MICROS)
    if micros.null_count:
        scaled = pc.multiply(within(millis, FIRST_MICROS // 1000, LAST_MICROS // 1000), _MILLI)
        # A number of microseconds that is out of range counts, and has no time.
        chosen = pc.if_else(micros.is_valid(), chosen, scaled)
    return chosen.view(pa.timestamp("us", "UTC"))


def positions(source: pa.StructArray) -> dict[str, pa.Array]:
    """Return the members of POSITION for source blocks of SOURCE_TYPE or more; all null where there is no block."""
    block = dict(zip(source.type.names, source.flatten(), strict=True))
    count = len(source)
    lsn, place = _filled(block["lsn"], -1), _filled(block["pos"], -1)
    by_lsn = lsn >= 0
    by_binlog = ~by_lsn & block["lsn"].is_null().to_numpy(False) & block["file"].is_valid().to_numpy(False)
    origin = pa.nulls(count, pa.string())
    numbers: dict[str, tuple[_Numbers, _Mask]] = {
        name: (np.zeros(count, np.int64), np.zeros(count, np.bool_)) for name in ("major", "minor", "row")
    }
    if by_lsn.any():
        texts = pc.binary_join_element_wise(*(_text(block[name]) for name in ("connector", "name", "db")), "/")
        origin = pc.if_else(pa.array(by_lsn), texts, origin)
        for name, values in (("major", lsn), ("minor", 0), ("row", 0)):
            _put(numbers[name], by_lsn, np.broadcast_to(values, count))
    if by_binlog.any():
        prefixes, files = _files(block["file"])
        known = by_binlog & (place >= 0) & (files >= 0)
        texts = pc.binary_join_element_wise(
            *(_text(block[name]) for name in ("connector", "name", "server_id")), prefixes, "/"
        )
        origin = pc.if_else(pa.array(known), texts, origin)
        for name, values in (("major", files), ("minor", place), ("row", np.maximum(_filled(block["row"], 0), 0))):
            _put(numbers[name], known, values)
    arrays = {"origin": origin} | {name: pa.array(values, mask=~there) for name, (values, there) in numbers.items()}
    arrays["time"] = timestamps(block["ts_us"], block["ts_ms"])
    tells = np.zeros(count, np.bool_)
    for name in ("file", "change_lsn", "scn"):
        tells |= block[name].is_valid().to_numpy(False)
    others = np.flatnonzero(~by_lsn & ~by_binlog & tells)
    if len(others):
        _one_by_one(source, others, arrays)
    return arrays


def _one_by_one(source: pa.StructArray, rows: _Numbers, arrays: dict[str, pa.Array]) -> None:
    """Replace the members at these rows by what `positions_of` finds."""
    found = positions_of(source.take(pa.array(rows)).to_pylist())
    order = np.arange(len(source))
    order[rows] = len(source) + np.arange(len(rows))
    for name, values in zip(("origin", "major", "minor", "row"), zip(*found, strict=True), strict=False):
        both = pa.concat_arrays([arrays[name], pa.array(values, POSITION_TYPE.field(name).type)])
        arrays[name] = both.take(pa.array(order))


def _files(files: pa.Array) -> tuple[pa.Array, _Numbers]:
    """Split the names of binlog files into what stands before their number, and the number; -1 where there is none."""
    coded = files.dictionary_encode()
    found = [file_of_binlog(name) or (None, -1) for name in coded.dictionary.to_pylist()]
    prefixes = pa.array([prefix for prefix, _ in found], pa.string()).take(coded.indices)
    numbers = np.array([*(number for _, number in found), -1], np.int64)
    return prefixes, numbers[_filled(coded.indices, len(found))]


def _put(column: tuple[_Numbers, _Mask], where: _Mask, values: _Numbers) -> None:
    column[0][where] = values[where]
    column[1][where] = True


def _text(values: pa.Array) -> pa.Array:
    texts = values if pa.types.is_string(values.type) else values.cast(pa.string())
    return pc.fill_null(texts, "None") if texts.null_count else texts


def _filled(values: pa.Array, value: int) -> _Numbers:
    whole = pc.fill_null(values, value) if values.null_count else values
    numbers: _Numbers = whole.to_numpy(zero_copy_only=False)
    return numbers
