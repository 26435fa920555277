"""Checkpoints of the commit log: the row that many versions become.

It takes the place of the last of them. A cut is kept as what differs from the one before, so that a version of a stream
of 4 segments takes some 60 bytes in place of 270.
"""

from __future__ import annotations

import base64
import json
import uuid
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut

from .commit_log_rows import Version

FOLDED = 128
"""Versions of a checkpoint: those up to one whose number can be divided by it."""
_FOR_OLDER_RELEASES = "folded by a newer pyspark-pravega: upgrade this one"
"""Stands where releases that know no checkpoints look for a stream cut, and refuse this with its text."""


def checkpoint_number(version: int) -> int:
    """Return the number of the row in which a version is, once it is folded."""
    return -(-version // FOLDED) * FOLDED


def is_checkpoint(row: Mapping[str, Any]) -> bool:
    """Tell whether a row is a checkpoint, and not a single version."""
    return "folded" in row


def checkpoint_value(stream: Stream, origin: int, versions: Sequence[Version]) -> bytes:
    """Return the row of these versions, which follow each other."""
    rows: list[list[Any]] = []
    before: Mapping[int, int] = {}
    for each in versions:
        positions = each.cut.positions
        moved = {segment: end - before.get(segment, 0) for segment, end in positions.items()}
        moved = {segment: more for segment, more in moved.items() if more or segment not in before}
        gone = [segment for segment in before if segment not in positions]
        transaction = None if each.transaction is None else each.transaction.hex
        rows.append([each.timestamp // 1000, each.rows, each.operation, transaction, moved, gone])
        before = positions
    packed = zlib.compress(json.dumps(rows, separators=(",", ":")).encode())
    row = {
        "stream": stream.name,
        "version": versions[-1].number,
        "cut": _FOR_OLDER_RELEASES,
        "transaction": "",
        "origin": origin,
        "folded": base64.b64encode(packed).decode("ascii"),
        "first": versions[0].number,
    }
    return json.dumps(row).encode()


def read_checkpoint(stream: Stream, row: Mapping[str, Any]) -> list[Version]:
    """Return the versions of a checkpoint, ascending."""
    versions: list[Version] = []
    positions: dict[int, int] = {}
    for number, each in enumerate(json.loads(zlib.decompress(base64.b64decode(row["folded"]))), row["first"]):
        timestamp_ms, rows, operation, transaction, moved, gone = each
        for segment, more in moved.items():
            positions[int(segment)] = positions.get(int(segment), 0) + more
        for segment in gone:
            del positions[segment]
        made = None if transaction is None else uuid.UUID(hex=transaction)
        versions.append(Version(number, StreamCut(stream, positions), timestamp_ms * 1000, rows, operation, made))
    return versions
