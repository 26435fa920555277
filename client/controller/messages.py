"""Converts between the controller's messages and the values of this package."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable
from typing import Literal

from ..stream import (
    Access,
    RetentionPolicy,
    ScalingPolicy,
    SegmentRange,
    Stream,
    StreamConfiguration,
    check_configuration,
)
from ..stream_cut import StreamCut
from . import controller_pb2 as pb

_LONG_MAX = (1 << 63) - 1

_HALVES = struct.Struct(">qq")
"""The two signed halves of a transaction's id."""

_SCALING_KINDS: dict[pb.ScalingPolicy.ScalingPolicyType, Literal["fixed", "by-rate-kb", "by-rate-events"]] = {
    pb.ScalingPolicy.FIXED_NUM_SEGMENTS: "fixed",
    pb.ScalingPolicy.BY_RATE_IN_KBYTES_PER_SEC: "by-rate-kb",
    pb.ScalingPolicy.BY_RATE_IN_EVENTS_PER_SEC: "by-rate-events",
}
_SCALING = {kind: number for number, kind in _SCALING_KINDS.items()}
_RETENTION_KINDS: dict[pb.RetentionPolicy.RetentionPolicyType, Literal["time", "size"]] = {
    pb.RetentionPolicy.TIME: "time",
    pb.RetentionPolicy.SIZE: "size",
}
_RETENTION = {kind: number for number, kind in _RETENTION_KINDS.items()}


def make_stream_info(stream: Stream, access: Access | None = None) -> pb.StreamInfo:
    """Return a stream in a request. Without `access` no token is asked for, so that the right to read suffices."""
    access_operation = "NONE" if access is None else access.value
    return pb.StreamInfo(scope=stream.scope, stream=stream.name, accessOperation=access_operation)


def make_stream_cut_message(cut: StreamCut) -> pb.StreamCut:
    return pb.StreamCut(streamInfo=make_stream_info(cut.stream), cut=dict(cut.positions))


def encode_configuration(stream: Stream, configuration: StreamConfiguration) -> pb.StreamConfig:
    """Return the request to create or update a stream. Raises InvalidOptionError for settings that cannot work."""
    check_configuration(configuration)
    scaling, retention = configuration.scaling, configuration.retention
    message = pb.StreamConfig(
        streamInfo=make_stream_info(stream),
        scalingPolicy=pb.ScalingPolicy(
            scaleType=_SCALING[scaling.kind],
            targetRate=scaling.target_rate,
            scaleFactor=scaling.factor,
            minNumSegments=scaling.min_segments,
        ),
        tags=pb.Tags(tag=sorted(set(configuration.tags))),
        timestampAggregationTimeout=configuration.timestamp_aggregation_timeout_ms,
        rolloverSizeBytes=configuration.rollover_size_bytes,
    )
    # To keep everything, the policy is left out; no client sends a policy of type UNKNOWN instead.
    if retention is not None:
        message.retentionPolicy.CopyFrom(
            pb.RetentionPolicy(
                retentionType=_RETENTION[retention.kind],
                retentionParam=retention.minimum,
                # Java sends this value if no maximum is given.
                retentionMax=_LONG_MAX if retention.maximum is None else retention.maximum,
            )
        )
    return message


def decode_configuration(message: pb.StreamConfig) -> StreamConfiguration:
    """Return the settings of a stream as the controller keeps them, whoever created it."""
    policy, kept = message.scalingPolicy, message.retentionPolicy
    scaling = ScalingPolicy(
        kind=_SCALING_KINDS[policy.scaleType],
        target_rate=policy.targetRate,
        factor=policy.scaleFactor,
        min_segments=policy.minNumSegments,
    )
    retention = None
    if kept.retentionType != pb.RetentionPolicy.UNKNOWN:
        unlimited = kept.retentionMax in (0, _LONG_MAX)
        retention = RetentionPolicy(
            kind=_RETENTION_KINDS[kept.retentionType],
            minimum=kept.retentionParam,
            maximum=None if unlimited else kept.retentionMax,
        )
    return StreamConfiguration(
        scaling=scaling,
        retention=retention,
        tags=tuple(sorted(message.tags.tag)),
        rollover_size_bytes=message.rolloverSizeBytes,
        timestamp_aggregation_timeout_ms=message.timestampAggregationTimeout,
    )


def decode_range(message: pb.SegmentRange) -> SegmentRange:
    return SegmentRange(message.segmentId.segmentId, message.minKey, message.maxKey)


def decode_ranges(messages: Iterable[pb.SegmentRange]) -> list[SegmentRange]:
    """Return segments with their key ranges, sorted by key."""
    return sorted((decode_range(message) for message in messages), key=lambda segment: segment.min_key)


def make_transaction_id_message(transaction: uuid.UUID) -> pb.TxnId:
    """Return a transaction's id as two signed 64-bit halves."""
    high, low = _HALVES.unpack(transaction.bytes)
    return pb.TxnId(highBits=high, lowBits=low)


def decode_transaction_id(message: pb.TxnId) -> uuid.UUID:
    return uuid.UUID(bytes=_HALVES.pack(message.highBits, message.lowBits))
