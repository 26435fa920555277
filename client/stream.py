"""Names and settings of streams: segment ids, segment names, scaling and retention.

A segment id is an int64: epoch in the high 32 bits, number in the low ones. A segment's name on the segment
store is `scope/stream/N.#epoch.E`; the part of a transaction that goes to it has its own segment until
the commit, with `#transaction.` and 32 hex digits appended.
"""

from __future__ import annotations

import enum
import uuid
from dataclasses import dataclass
from typing import Literal

from pyspark_pravega.errors import InvalidOptionError

_KEY_VALUE_TABLE_SUFFIX = "_kvtable"

_INT_MAX = (1 << 31) - 1
MAX_EPOCH = _INT_MAX
"""Epochs are ints in Java. A UUID that is not a transaction's id can seem to have a larger one."""
_LONG_MAX = (1 << 63) - 1


@dataclass(frozen=True, order=True)
class Stream:
    """The name of a stream, in its scope; `str()` gives `scope/name`.

    Examples
    --------
    >>> str(Stream("plant", "temperatures"))
    'plant/temperatures'
    """

    scope: str
    name: str

    def __str__(self) -> str:
        return f"{self.scope}/{self.name}"


def make_segment_id(number: int, epoch: int) -> int:
    return epoch << 32 | number


def get_segment_number(segment_id: int) -> int:
    return segment_id & 0xFFFFFFFF


def get_segment_epoch(segment_id: int) -> int:
    return segment_id >> 32


def make_segment_name(stream: Stream, segment_id: int, transaction: uuid.UUID | None = None) -> str:
    """Return the segment store's name of a segment, or of a transaction's part of it.

    All parts of a transaction are named after its own epoch, even where their segments are older; so any id with the
    segment's number will do here.
    """
    if transaction is not None:
        segment_id = make_transaction_segment_id(segment_id, transaction)
    name = f"{stream}/{get_segment_number(segment_id)}.#epoch.{get_segment_epoch(segment_id)}"
    return name if transaction is None else f"{name}#transaction.{transaction.hex}"


def read_segment_name(name: str) -> tuple[Stream, int]:
    """Return the stream and the id of a segment of this name."""
    scope, stream, segment = name.split("/")
    number, _, epoch = segment.partition(".#epoch.")
    return Stream(scope, stream), int(epoch) << 32 | int(number)


def get_transaction_epoch(transaction: uuid.UUID) -> int:
    """Return the epoch of the stream in which a transaction began: it writes to the segments of that epoch."""
    return transaction.int >> 96


def make_transaction_segment_id(segment_id: int, transaction: uuid.UUID) -> int:
    """Return the id under which a transaction lists a segment: its number with the transaction's epoch."""
    return get_transaction_epoch(transaction) << 32 | get_segment_number(segment_id)


def make_key_value_table_stream(scope: str, table: str) -> Stream:
    """Return the pretend stream whose segments are a key-value table's partitions.

    Ask for tokens and locations under this name: the segment store refuses those that the controller has for the table.
    """
    return Stream(scope, table + _KEY_VALUE_TABLE_SUFFIX)


def find_key_value_table(stream: Stream) -> str | None:
    """Return the name of the key-value table that a pretend stream stands for; None for other streams."""
    table = stream.name.removesuffix(_KEY_VALUE_TABLE_SUFFIX)
    return None if table == stream.name else table


@dataclass(frozen=True)
class KeyValueTableConfiguration:
    """What never changes in a key-value table: its number of partitions, and the lengths of its keys in bytes."""

    partitions: int
    primary_key_length: int
    secondary_key_length: int = 0


@dataclass(frozen=True)
class SegmentRange:
    """A segment and the part of the key space [0, 1] that it covers."""

    segment_id: int
    min_key: float
    max_key: float


@dataclass(frozen=True)
class ScalingPolicy:
    """How many segments a stream has, and how the server changes their number.

    `kind`: `fixed` keeps `min_segments`. The others split a segment whose rate stays above `target_rate`, and merge
    segments with little traffic. `target_rate`: kB/s (`by-rate-kb`) or events/s (`by-rate-events`) of one segment.
    `factor`: into how many segments one is split, at least 2. `min_segments`: the stream never has fewer.

    Examples
    --------
    >>> ScalingPolicy("by-rate-events", target_rate=1000, factor=2, min_segments=4)
    ScalingPolicy(kind='by-rate-events', target_rate=1000, factor=2, min_segments=4)
    """

    kind: Literal["fixed", "by-rate-kb", "by-rate-events"] = "fixed"
    target_rate: int = 0
    factor: int = 0
    min_segments: int = 1


@dataclass(frozen=True)
class RetentionPolicy:
    """The rule by which a stream forgets its oldest events.

    `time` forgets events older than `minimum` milliseconds, `size` the oldest ones beyond `minimum` bytes. Readers
    that are registered as subscribers can hold the truncation back, up to `maximum` (None: without limit).
    """

    kind: Literal["time", "size"]
    minimum: int
    maximum: int | None = None


@dataclass(frozen=True)
class StreamConfiguration:
    """The settings of a stream, as the controller keeps them.

    `scaling`: by default a single segment, always. `retention`: None keeps all events. `tags`: texts by which streams
    can be listed. `rollover_size_bytes`: size at which the server starts a new file for a segment in long-term storage;
    0 is the server's default. `timestamp_aggregation_timeout_ms`: milliseconds after which watermarks no longer wait
    for a writer that notes no times; 0 is the server's default.

    Examples
    --------
    >>> StreamConfiguration(ScalingPolicy(min_segments=4), tags=("plant",)).scaling.min_segments
    4
    """

    scaling: ScalingPolicy = ScalingPolicy()
    retention: RetentionPolicy | None = None
    tags: tuple[str, ...] = ()
    rollover_size_bytes: int = 0
    timestamp_aggregation_timeout_ms: int = 0


def check_configuration(configuration: StreamConfiguration) -> None:
    """Refuse settings that the server would accept and then misbehave with, or answer with a bare failure.

    The constructors do not check, because streams of other clients may have such settings. Raises InvalidOptionError.
    """
    scaling, retention = configuration.scaling, configuration.retention
    if scaling.kind not in ("fixed", "by-rate-kb", "by-rate-events"):
        raise InvalidOptionError(
            f"the scaling policy '{scaling.kind}' is unknown; it must be fixed, by-rate-kb or by-rate-events"
        )
    if not 1 <= scaling.min_segments <= _INT_MAX:
        raise InvalidOptionError(f"the number of segments is {scaling.min_segments}; it must be at least 1")
    if scaling.kind != "fixed" and not 1 <= scaling.target_rate <= _INT_MAX:
        raise InvalidOptionError(f"the target rate of {scaling.kind} is {scaling.target_rate}; it must be at least 1")
    if scaling.kind != "fixed" and not 2 <= scaling.factor <= _INT_MAX:
        raise InvalidOptionError(f"the scale factor of {scaling.kind} is {scaling.factor}; it must be at least 2")
    if retention is not None:
        if retention.kind not in ("time", "size"):
            raise InvalidOptionError(f"the retention policy '{retention.kind}' is unknown; it must be time or size")
        if not 0 < retention.minimum <= _LONG_MAX:
            raise InvalidOptionError(f"the retention minimum is {retention.minimum}; it must be greater than 0")
        if retention.maximum is not None and not retention.minimum <= retention.maximum <= _LONG_MAX:
            raise InvalidOptionError(
                f"the retention maximum is {retention.maximum}; it must not be below the minimum {retention.minimum}"
            )
    for name in ("rollover_size_bytes", "timestamp_aggregation_timeout_ms"):
        value = getattr(configuration, name)
        if not 0 <= value <= _LONG_MAX:
            raise InvalidOptionError(f"{name} is {value}; it must not be negative")


class Access(enum.Enum):
    """The right that a delegation token carries. Segment stores check it only coarsely: ask for the least."""

    READ = "READ"
    WRITE = "WRITE"
    READ_WRITE = "READ_WRITE"
