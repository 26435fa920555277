"""Offsets of streaming queries, which Spark keeps in a checkpoint: how far a query has read a table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql.types import StructType

from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.errors import CheckpointError

from ..positions.identity import StreamIdentity, describe_time, make_creation_member, read_creation_member

T = TypeVar("T")
FORMAT = 1
"""The version of the JSON below, and of that of several streams. Older ones stay readable: see the golden files."""
_LONGEST_TYPE = 100
"""The longest text of a column's type that is kept as it is."""
START_ANEW = "Start the query with a new checkpoint location."
_OR_START_ANEW = "or start the query with a new checkpoint location."


@dataclass(frozen=True)
class SourceOffset:
    """The end of a micro-batch: a stream cut between events.

    `identity` distinguishes the stream from one recreated under its name; None if the user may not know it. `columns`
    are those that the query reads, with their types. `begin` is where the query started, in its first offset and in the
    end of its first micro-batch: Spark does not keep that start, and asks again when it repeats that micro-batch.
    `marks` is how far the stream's watermarks were known, if they count.
    """

    cut: StreamCut
    identity: str | None
    columns: Mapping[str, str]
    begin: Mapping[int, int] | None = None
    marks: int | None = None

    @property
    def is_first(self) -> bool:
        """Return whether this is where the query started."""
        return self.begin == self.cut.positions

    def to_json(self) -> str:
        """Return the text that Spark keeps."""
        identity = None if self.identity is None else StreamIdentity.parse(self.identity)
        value: dict[str, Any] = {
            "format": FORMAT,
            "stream": str(self.cut.stream),
            "identity": None if identity is None else identity.origin or None,
            "columns": dict(self.columns),
            "positions": _write_texts(self.cut.positions),
        }
        if identity is not None:
            value |= make_creation_member(identity.creation)
        if self.begin is not None:
            value["begin"] = _write_texts(self.begin)
        if self.marks is not None:
            value["marks"] = self.marks
        return json.dumps(value)

    @classmethod
    def from_json(cls, text: str) -> SourceOffset:
        """Read what `to_json` of this or an older version wrote. Raises CheckpointError for anything else."""
        return read_offset(text, "that a Pravega table writes", cls._of)

    @classmethod
    def _of(cls, value: dict[str, Any]) -> SourceOffset:
        scope, _, name = value["stream"].partition("/")
        cut = StreamCut(Stream(scope, name), _read_numbers(value["positions"]))
        begin = _read_numbers(value["begin"]) if "begin" in value else None
        marks = int(value["marks"]) if "marks" in value else None
        identity = str(StreamIdentity(value["identity"] or "", read_creation_member(value))) or None
        return cls(cut, identity, dict(value["columns"]), begin, marks)


def read_offset(text: str, which: str, read: Callable[[dict[str, Any]], T]) -> T:
    """Return what `read` makes of the JSON of an offset.

    Raises CheckpointError for a text that is not one `which` a query can read, and for one of a newer format.
    """
    try:
        value = json.loads(text)
        format = value["format"]
        if format == FORMAT:
            return read(value)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CheckpointError(
            f"The checkpoint is damaged, or belongs to another kind of query: its offset {text} is not one {which}. "
            f"{START_ANEW}"
        ) from None
    raise CheckpointError(
        f"The checkpoint's offset has format {format}, but this version of pyspark-pravega knows formats up to "
        f"{FORMAT}. Run the query with the version that wrote the checkpoint, or a newer one."
    )


def _write_texts(positions: Mapping[int, int]) -> dict[str, int]:
    return {str(segment): offset for segment, offset in sorted(positions.items())}


def _read_numbers(positions: Mapping[str, Any]) -> dict[int, int]:
    return {int(segment): int(offset) for segment, offset in positions.items()}


def list_columns_read(table: StructType, required: StructType) -> dict[str, str]:
    """Return the columns of a table that a query reads, with their types: long ones as digests."""
    names = set(required.fieldNames())
    return {field.name: _shorten_type(field.dataType.simpleString()) for field in table if field.name in names}


def _shorten_type(text: str) -> str:
    if len(text) <= _LONGEST_TYPE:
        return text
    return f"{text.partition('<')[0]}:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def check_offset(offset: SourceOffset, stream: Stream, identity: str | None, table: StructType) -> None:
    """Raise CheckpointError for an offset of another stream, or of a table whose columns have changed too much.

    Columns may be added. Spark reads all columns of a stream, so those that a query does not select count too.
    """
    if offset.cut.stream != stream:
        raise CheckpointError(
            f"The checkpoint belongs to a query on stream {offset.cut.stream}, but this one reads stream {stream}. "
            f"{START_ANEW}"
        )
    if is_of_earlier_stream(offset, identity):
        raise CheckpointError(describe_other_stream(stream, str(offset.identity), str(identity)))
    now = list_columns_read(table, table)
    for name, type in offset.columns.items():
        if name not in now:
            raise CheckpointError(
                f"The query has read column {name} ({type}) of stream {stream} so far, but the table no longer has it. "
                f"Add the column again, read another 'schema-version', {_OR_START_ANEW}"
            )
        if now[name] != type:
            raise CheckpointError(
                f"Column {name} of stream {stream} was {type} when the checkpoint was written, but is {now[name]} now. "
                f"Continue with the older 'schema-version', {_OR_START_ANEW}"
            )


def is_of_earlier_stream(offset: SourceOffset, identity: str | None) -> bool:
    """Return whether an offset belongs to another stream than the one with this identity: a former one of its name."""
    if identity is None or offset.identity is None:
        return False
    return StreamIdentity.parse(offset.identity).is_of_other_stream(StreamIdentity.parse(identity))


def describe_other_stream(stream: Stream, former: str, present: str) -> str:
    """Return why an offset with the identity `former` is not one of a stream whose identity is `present`."""
    then, now = StreamIdentity.parse(former), StreamIdentity.parse(present)
    if then.creation and now.creation and not then.is_of_other_origin(now):
        return (
            f"The checkpoint belongs to a stream {stream} whose segment {then.creation[0]} was created at "
            f"{describe_time(then.creation)}, but that of this stream was created at {describe_time(now.creation)}: it "
            "is in another cluster, or in one that has lost its data. The positions are meaningless in it. "
            f"{START_ANEW}"
        )
    return (
        f"Stream {stream} was dropped and recreated since the checkpoint was written, so its positions are "
        f"meaningless in the new one. {START_ANEW}"
    )
