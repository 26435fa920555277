"""Positions in a stream, and their text form as Java's `StreamCut.asText()` writes it."""

from __future__ import annotations

import base64
import gzip
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from pyspark_pravega.errors import InvalidOptionError, shorten

from .stream import Stream, get_segment_epoch, get_segment_number, make_segment_id

UNBOUNDED = "UNBOUNDED"
"""Java's text of the cut before or after everything. It is not a `StreamCut`: pass None instead."""

# A cut of a million segments takes less; anything larger is a compression bomb.
_MAX_PLAIN_BYTES = 64 << 20

# As long as a Java long.
_INTEGER = re.compile(r"-?[0-9]{1,19}")


@dataclass(frozen=True)
class StreamCut:
    """A position in a stream: an offset in bytes for each of some segments that together cover the key space once."""

    stream: Stream
    positions: Mapping[int, int]

    def __post_init__(self) -> None:
        # A copy, since the caller may still change the mapping.
        object.__setattr__(self, "positions", dict(self.positions))

    def __hash__(self) -> int:
        return hash((self.stream, frozenset(self.positions.items())))

    def __str__(self) -> str:
        shown = ", ".join(
            f"{get_segment_number(segment)}.#epoch.{get_segment_epoch(segment)}={offset}"
            for segment, offset in sorted(self.positions.items())
        )
        return f"{self.stream}:{{{shown}}}"

    def to_text(self) -> str:
        """Return the portable text: base64 of gzip of `0:scope/stream:numbers:epochs:offsets`.

        Equal cuts give equal texts: segments are sorted, and the gzip header has no time stamp.
        """
        segments = sorted(self.positions)
        columns = (
            [get_segment_number(segment) for segment in segments],
            [get_segment_epoch(segment) for segment in segments],
            [self.positions[segment] for segment in segments],
        )
        plain = f"0:{self.stream}:" + ":".join(",".join(map(str, column)) for column in columns)
        return base64.b64encode(gzip.compress(plain.encode(), mtime=0)).decode("ascii")

    @classmethod
    def from_text(cls, text: str) -> StreamCut:
        """Return the cut in a text by `to_text` or Java's `asText`, compressed or plain. Raises InvalidOptionError."""
        plain = text.strip()
        if plain == UNBOUNDED:
            _refuse(text, f"is {UNBOUNDED}, which is not a position; leave the bound out instead")
        parts = plain.split(":")
        if len(parts) == 1:  # base64 has no colon
            parts = _decompress(text).split(":")
        if len(parts) != 5:
            _refuse(text, f"has {len(parts)} parts instead of 5 (version:scope/stream:numbers:epochs:offsets)")
        version, scoped_name, *columns = parts
        if version != "0":
            _refuse(text, f"has version '{version}'; only version 0 is known")
        scope, slash, name = scoped_name.partition("/")
        if not slash or not scope or not name or "/" in name:
            _refuse(text, f"names '{scoped_name}' instead of scope/stream")
        numbers, epochs, offsets = (_parse_integers(text, column) for column in columns)
        if not len(numbers) == len(epochs) == len(offsets):
            _refuse(text, f"has {len(numbers)} segment numbers, {len(epochs)} epochs and {len(offsets)} offsets")
        if any(not 0 <= value < 1 << 31 for value in numbers + epochs):
            _refuse(text, "has a segment number or epoch out of range")
        if any(not 0 <= value < 1 << 63 for value in offsets):
            _refuse(text, "has an offset out of range")
        positions = {
            make_segment_id(number, epoch): offset
            for number, epoch, offset in zip(numbers, epochs, offsets, strict=True)
        }
        if len(positions) != len(offsets):
            _refuse(text, "names a segment twice")
        return cls(Stream(scope, name), positions)


def _decompress(text: str) -> str:
    inflater = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        compressed = base64.b64decode(text.strip(), validate=True)
        plain = inflater.decompress(compressed, _MAX_PLAIN_BYTES)
        if not inflater.eof:
            _refuse(text, "is cut short" if not inflater.unconsumed_tail else "is too large")
        if inflater.unused_data:
            _refuse(text, f"has {len(inflater.unused_data):,} bytes too many at its end")
        return plain.decode("utf-8")
    except zlib.error:
        _refuse(text, "is not compressed with gzip")
    except UnicodeDecodeError:
        _refuse(text, "does not hold text")
    except ValueError:  # binascii's, or of characters beyond ASCII
        _refuse(text, "is not base64")


def _parse_integers(text: str, column: str) -> list[int]:
    # Java writes a cut without segments as empty columns.
    values = column.split(",") if column else []
    # `int` would also accept blanks, underscores and digits of other scripts.
    if all(_INTEGER.fullmatch(value) for value in values):
        return [int(value) for value in values]
    _refuse(text, f"has '{column[:40]}' where whole numbers separated by commas are expected")


def _refuse(text: str, reason: str) -> NoReturn:
    raise InvalidOptionError(
        f"the stream cut '{shorten(text, 60)}' {reason}; give the plain text "
        "0:scope/stream:numbers:epochs:offsets, or the text of a stream cut as this package or Java's "
        "StreamCut.asText() writes it"
    ) from None
