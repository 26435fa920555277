"""Consumers of a stream: names under which the server keeps the events that queries still need, and frees the rest.

To Pravega a consumer is a reader group without readers, whose events are released by stream cuts (Java's
`MANUAL_RELEASE_AT_USER_STREAMCUT`). A query takes its consumer over at every start; an earlier run of the query can no
longer move it then. The stream's retention policy sets the limits: the server keeps everything younger than the
policy's minimum and everything that a consumer needs, but frees whatever lies beyond the maximum.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from pyspark_pravega import errors

from .. import Pravega
from ..controller.reader_group_calls import Holding, ReaderGroup
from ..stream import Stream
from ..stream_cut import StreamCut
from .group_state import GroupLog


class Consumer:
    """A consumer that this process has taken over. Only one thread at a time may move it."""

    def __init__(self, pravega: Pravega, stream: Stream, group: ReaderGroup) -> None:
        self._pravega = pravega
        self._stream = stream
        self._group = group
        self._log = GroupLog(pravega, group.scope, group.name)

    @property
    def name(self) -> str:
        """Return the name, which is unique in the stream's scope."""
        return self._group.name

    @classmethod
    def register(cls, pravega: Pravega, stream: Stream, name: str, position: StreamCut) -> Consumer:
        """Create a consumer that holds the events after a position, or take over the one of this name.

        A consumer that is already past the position is created again, since the events that it has released may be
        gone. Needs READ_UPDATE on the scope and the stream. Raises UnsupportedOperationError if the stream has no
        retention policy; ConsumerInUseError if the name belongs to a reader group of another kind or stream, or if
        another query takes it at the same moment; InvalidNameError; StreamNotFoundError.
        """
        if pravega.controller.stream_configuration(stream).retention is None:
            raise errors.UnsupportedOperationError(
                f"stream '{stream}' has no retention policy, so the server keeps everything, whatever consumer "
                f"'{name}' has read. Set one, for example the table properties 'retention.type'='size' and "
                "'retention.minimum'='1m', or leave the consumer out"
            )
        group = pravega.controller.reader_group(stream.scope, name)
        if group is not None:
            _check_is_free(pravega, stream, group)
            group = _take_over(pravega, group, position)
            consumer = cls(pravega, stream, group)
            try:
                consumer.move(position)
                return consumer
            except errors.InvalidOptionError:  # it is already past the position
                pravega.controller.delete_reader_group(group)
        new_group = ReaderGroup(stream.scope, name, uuid.uuid4(), 0, Holding.MANUAL, (position,))
        group = pravega.controller.create_reader_group(new_group)
        if group.id != new_group.id:
            raise errors.ConsumerInUseError(
                f"consumer '{name}' of scope '{stream.scope}' was created by another query at the same moment; give "
                "each query its own consumer"
            )
        consumer = cls(pravega, stream, group)
        consumer.move(position)
        return consumer

    def move(self, position: StreamCut) -> None:
        """Release the events before a position, which must not lie before the last one. Takes two short calls.

        Raises ConsumerInUseError if another query has taken the consumer over, ConsumerNotFoundError if it was
        dropped, InvalidOptionError if the position lies before the last one, StreamNotFoundError.
        """
        self._pravega.controller.move_subscriber(self._group, position)
        self._log.write(self._group, position)


@dataclass(frozen=True)
class ConsumerStatus:
    """The state of a consumer. `position` and `bytes_behind` are None if readers of other clients keep the position."""

    stream: Stream
    scope: str
    name: str
    holding: Holding
    position: StreamCut | None
    bytes_behind: int | None


def list_consumers(pravega: Pravega, stream: Stream) -> list[ConsumerStatus]:
    """Return the consumers and other reader groups that hold events of a stream. Raises StreamNotFoundError."""
    return [_find_status(pravega, stream, scope, name) for scope, name in pravega.controller.subscribers(stream)]


def list_consumers_of_scope(pravega: Pravega, scope: str) -> list[ConsumerStatus]:
    """Return the consumers and other reader groups that hold events of a scope. Raises ScopeNotFoundError."""
    statuses = []
    for name in _group_names(pravega.controller.list_streams(scope)):
        group = pravega.controller.reader_group(scope, name)
        if group is not None and group.holding is not Holding.NONE:
            statuses += [_find_status(pravega, stream, scope, name) for stream in group.streams]
    return statuses


def list_reader_groups(pravega: Pravega, stream: Stream) -> list[ConsumerStatus]:
    """Return the consumers of a stream, and all reader groups that read it, with the positions of their readers.

    Those of other scopes are listed only if they hold events, and so are all without the right to list the scope.
    Raises StreamNotFoundError.
    """
    statuses = {(status.scope, status.name): status for status in list_consumers(pravega, stream)}
    with suppress(errors.PermissionDeniedError):
        for name in _group_names(pravega.controller.list_streams(stream.scope)):
            key = stream.scope, name
            if key not in statuses and (group := pravega.controller.reader_group(*key)) and stream in group.streams:
                statuses[key] = ConsumerStatus(stream, *key, group.holding, None, None)
    return [status if status.position else _add_position(pravega, status) for status in statuses.values()]


def _add_position(pravega: Pravega, status: ConsumerStatus) -> ConsumerStatus:
    position = None
    with suppress(errors.PermissionDeniedError):
        position = find_group_position(pravega, status.stream, status.scope, status.name)
    behind = None if position is None else count_bytes_after(pravega, position)
    return replace(status, position=position, bytes_behind=behind)


def find_group_position(pravega: Pravega, stream: Stream, scope: str, name: str) -> StreamCut | None:
    """Return the position of a reader group in a stream, if it is a stream cut now; see `GroupProgress.positions`."""
    with suppress(errors.StreamNotFoundError):
        progress = GroupLog(pravega, scope, name).read()
        positions = {} if progress is None else progress.positions(stream)
        read = [segment for segment, at in positions.items() if at < 0]  # to their ends, whose successors wait
        infos = pravega.segments.segment_infos(stream, read) if read else {}
        cut = StreamCut(stream, positions | {segment: info.write_offset for segment, info in infos.items()})
        if positions and len(infos) == len(read) and pravega.known_streams.is_cut(cut):
            return cut
    return None


def list_foreign_groups(pravega: Pravega, scope: str, streams: Iterable[str]) -> list[str]:
    """Return the names of the reader groups of a scope that remain if its streams are dropped; see `drop_consumers_of`.

    `streams` are the names of all streams of the scope, including those of reader groups.
    """
    groups = (pravega.controller.reader_group(scope, name) for name in _group_names(streams))
    return [group.name for group in groups if group is not None and not _is_dropped_with_stream(pravega, group)]


def _is_dropped_with_stream(pravega: Pravega, group: ReaderGroup) -> bool:
    if group.holding is not Holding.MANUAL or len(group.streams) != 1:
        return False
    try:
        is_subscribed = (group.scope, group.name) in pravega.controller.subscribers(group.streams[0])
        return is_subscribed and not _has_readers(pravega, group)
    except errors.StreamNotFoundError:
        return False


def _group_names(streams: Iterable[str]) -> list[str]:
    return [name.removeprefix("_RG") for name in streams if name.startswith("_RG")]


def list_consumers_of_scopes(pravega: Pravega, scopes: Iterable[str]) -> Iterator[ConsumerStatus]:
    """Yield the consumers of several scopes, as `list_consumers_of_scope` does; skip scopes that were dropped."""
    for scope in scopes:
        with suppress(errors.ScopeNotFoundError):
            yield from list_consumers_of_scope(pravega, scope)


def drop_consumer(pravega: Pravega, scope: str, name: str) -> None:
    """Drop a consumer; the server may then free what it held.

    Raises ConsumerNotFoundError, and ConsumerInUseError for a reader group that holds no events, or that readers of
    other clients use.
    """
    group = pravega.controller.reader_group(scope, name)
    if group is None:
        raise errors.ConsumerNotFoundError(
            f"there is no consumer '{name}' in scope '{scope}'; see pyspark-pravega consumers list"
        )
    if group.holding is not Holding.MANUAL or len(group.streams) != 1 or _has_readers(pravega, group):
        raise errors.ConsumerInUseError(
            f"'{name}' of scope '{scope}' is a reader group of other clients; drop it with Pravega's own tools"
        )
    (stream,) = group.streams
    if (scope, name) not in _list_subscribers(pravega, stream):
        # Otherwise the controller would try for ever to remove it from the stream's subscribers.
        group = _take_over(pravega, group, pravega.controller.head(stream))
    pravega.controller.delete_reader_group(group)


def _list_subscribers(pravega: Pravega, stream: Stream) -> list[tuple[str, str]]:
    try:
        return pravega.controller.subscribers(stream)
    except errors.StreamNotFoundError:
        raise errors.UnsupportedOperationError(
            f"stream '{stream}' no longer exists, and Pravega 0.13 cannot drop a consumer whose stream was deleted "
            "first; create a stream of this name again, drop the consumer, and then the stream"
        ) from None


def _take_over(pravega: Pravega, group: ReaderGroup, position: StreamCut) -> ReaderGroup:
    """Take over the right to move a group. If its stream was created again, the group becomes its subscriber."""
    group = replace(group, starts=(position,))
    return replace(group, generation=pravega.controller.update_reader_group(group))


def drop_consumers_of(pravega: Pravega, stream: Stream) -> None:
    """Drop the consumers of a stream that is about to be deleted; reader groups of other clients remain.

    Raises ConsumerInUseError if a consumer is being created or dropped right now: its stream must stay until then.
    """
    for scope, name in pravega.controller.subscribers(stream):
        group = pravega.controller.reader_group(scope, name)
        if group is None or group.streams != (stream,) or group.holding is not Holding.MANUAL:
            continue
        try:
            used = _has_readers(pravega, group)
        except errors.StreamNotFoundError:
            raise errors.ConsumerInUseError(
                f"consumer '{name}' of scope '{scope}' is being created or dropped right now; drop stream '{stream}' "
                "again in a moment"
            ) from None
        if not used:
            pravega.controller.delete_reader_group(group)


def _find_status(pravega: Pravega, stream: Stream, scope: str, name: str) -> ConsumerStatus:
    group = pravega.controller.reader_group(scope, name)
    position = None
    if group is not None and group.holding is Holding.MANUAL and group.streams == (stream,):
        try:
            state = GroupLog(pravega, scope, name).read()
        except errors.StreamNotFoundError:
            state = None  # being created or dropped: the group is known, but its stream is missing
        position = None if state is None or state.used else StreamCut(stream, state.positions(stream))
    holding = Holding.NONE if group is None else group.holding
    behind = None if position is None else count_bytes_after(pravega, position)
    return ConsumerStatus(stream, scope, name, holding, position, behind)


def count_bytes_after(pravega: Pravega, position: StreamCut) -> int | None:
    """Return how many bytes of a stream follow a position, even one before its head; None if the stream is gone."""
    stream = position.stream
    try:
        segments, token = pravega.controller.list_segments_between(position, None)
    except (errors.InvalidOptionError, errors.StreamNotFoundError):
        return None  # the position belongs to an older stream of this name
    pravega.segments.seed_token(stream, token)
    infos = pravega.segments.segment_infos(stream, segments)
    return sum(
        max(0, info.write_offset - max(position.positions.get(segment, 0), info.start_offset))
        for segment, info in infos.items()
    )


def lies_before(pravega: Pravega, position: StreamCut, cut: StreamCut) -> bool:
    """Return whether a position lies before a cut, at least in part, or belongs to an older stream of this name."""
    if position == cut:
        return False
    try:
        pravega.controller.list_segments_between(cut, position)
    except errors.InvalidOptionError:
        return True
    return False


def _check_is_free(pravega: Pravega, stream: Stream, group: ReaderGroup) -> None:
    taken = f"choose a name other than '{group.name}' for the consumer: in scope '{group.scope}' it is taken"
    if group.streams != (stream,):
        others = ", ".join(map(str, group.streams))
        raise errors.ConsumerInUseError(f"{taken} by a consumer or reader group of stream {others}, not of '{stream}'")
    if group.holding is not Holding.MANUAL:
        raise errors.ConsumerInUseError(
            f"{taken} by a reader group of another client, which holds events in the way {group.holding.name}"
        )
    if _has_readers(pravega, group):
        raise errors.ConsumerInUseError(f"{taken} by a reader group that readers of another client use")


def _has_readers(pravega: Pravega, group: ReaderGroup) -> bool:
    state = GroupLog(pravega, group.scope, group.name).read()
    return state is not None and state.used
