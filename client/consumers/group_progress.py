"""How far the readers of a reader group are, as Java's readers agree on it in the group's stream.

A record is a whole state, or changes of the state before it (`ReaderGroupState.java` and `CheckpointState.java` of
Pravega 0.13). A checkpoint is complete once all readers that were there when it began have added their positions.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ..stream import Stream, read_segment_name
from ..wire.versioned import VersionedReader

_CHANGES = struct.pack(">i", 2)
"""How a record begins that has changes of a state."""
_SILENT = "_SILENT_"
"""A part of the names of checkpoints that only serve to measure a stream cut."""
_WHAT = "the state of a reader group"

Offsets: TypeAlias = dict[str, int]
"""Offsets in segments, by the segments' names."""


@dataclass
class GroupProgress:
    """The state of a reader group.

    `offsets`: where readers began in the group's segments, or were at their last checkpoints; `owners`: who reads
    which. `waiting`: segments that follow others, with those that must be read before. `checkpoints`: the positions at
    each that is not complete, and the readers that have yet to add theirs. `last`: the last complete one. `used`:
    whether readers have written anything, so that the group is no consumer.
    """

    offsets: Offsets
    readers: set[str] = field(default_factory=set)
    owners: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, set[int]] = field(default_factory=dict)
    checkpoints: dict[str, tuple[Offsets, set[str]]] = field(default_factory=dict)
    last: Offsets = field(default_factory=dict)
    used: bool = False

    def positions(self, stream: Stream) -> dict[int, int]:
        """Return the last complete checkpoint's positions in a stream; without one, where other readers would go on.

        -1 stands for a segment's end. A segment that has been read is missing if one that was merged with it has not.
        """
        by_segment = {read_segment_name(name): at for name, at in (self.last or self.offsets).items()}
        return {segment: at for (owner, segment), at in by_segment.items() if owner == stream}

    def change(self, kind: int, fields: VersionedReader) -> None:
        """Take in a change; kinds that concern no position are passed over."""
        self.used = True
        if kind == 13:  # checkpoints that are not complete are given up
            self.checkpoints.clear()
        if not 2 <= kind <= 9:
            return
        name = fields.text()  # of a checkpoint or a reader
        match kind:
            case 2:  # a reader is added
                self.readers.add(name)
            case 3:  # a reader is removed
                ends = _read_offsets(fields)
                own = {segment: ends.get(segment, self.offsets[segment]) for segment in self._list_own(name)}
                self.readers.discard(name)
                self.offsets |= own
                for segment in own:
                    del self.owners[segment]
                for checkpoint in list(self.checkpoints):
                    self._add_to_checkpoint(checkpoint, name, own)
            case 4:  # a reader releases a segment
                del self.owners[segment := fields.text()]
                (self.offsets[segment],) = fields.unpack("q")
            case 5:  # a reader acquires a segment
                self.owners[fields.text()] = name
            case 7:  # a reader has read a segment to its end
                segment = fields.text()
                del self.owners[segment], self.offsets[segment]
                self.waiting = {**_read_predecessors(fields), **self.waiting}
                for before in self.waiting.values():
                    before.discard(read_segment_name(segment)[1])
                self.offsets |= {successor: 0 for successor, before in self.waiting.items() if not before}
                self.waiting = {successor: before for successor, before in self.waiting.items() if before}
            case 8:  # a reader has come to a checkpoint
                reader, offsets = fields.text(), _read_offsets(fields)
                self._add_to_checkpoint(name, reader, offsets)
                if _SILENT not in name:
                    self.offsets |= {segment: offsets[segment] for segment in self._list_own(reader) & offsets.keys()}
            case 9 if _SILENT not in name:  # a checkpoint begins
                free = {segment: at for segment, at in self.offsets.items() if segment not in self.owners}
                self.checkpoints[name] = free, {"", *self.readers}
                self._add_to_checkpoint(name, "", {})

    def _list_own(self, reader: str) -> set[str]:
        return {segment for segment, owner in self.owners.items() if owner == reader}

    def _add_to_checkpoint(self, checkpoint: str, reader: str, offsets: Offsets) -> None:
        positions, readers = self.checkpoints.get(checkpoint, ({}, set()))
        if reader in readers:
            positions |= offsets
            readers.remove(reader)
            if not readers:
                self.last = positions
                names = list(self.checkpoints)
                for earlier in names[: names.index(checkpoint) + 1]:  # no reader will come to them any more
                    del self.checkpoints[earlier]


def fold_records(records: Sequence[bytes]) -> GroupProgress | None:
    """Return the state after all records; None if none of them has a whole state. Raises ProtocolError."""
    progress = None
    last = max((number for number, record in enumerate(records) if record[:4] != _CHANGES), default=0)
    for record in records[last:]:
        whole, at = record[:4] != _CHANGES, 4
        while at < len(record):
            begin, end = (at, len(record)) if whole else (at + 4, at + 4 + int.from_bytes(record[at : at + 4]))
            kind, at = record[begin + 1], end
            fields = VersionedReader(record[begin:end], _WHAT).revisions(type=kind)[0]
            if kind < 2:
                progress = _read_state(fields, has_readers=kind == 1)
            elif progress is not None:
                progress.change(kind, fields)
    return progress


def _read_state(fields: VersionedReader, *, has_readers: bool) -> GroupProgress:
    """Read the first state of a group, or of one that was reset, or a later one with its readers and checkpoints."""
    fields.block()
    if not has_readers:
        return GroupProgress(_read_offsets(fields))
    inner = VersionedReader(fields.block(), _WHAT).revisions()[0]
    names = inner.texts()
    missing = inner.mapping(inner.text, lambda: set(inner.texts()))
    positions = inner.mapping(inner.text, lambda: _read_offsets(inner))
    checkpoints = {name: (positions[name], missing[name]) for name in names if name in missing and _SILENT not in name}
    # Java does not count one of a group without readers as the last one.
    complete = [positions[name] for name in names if name in positions.keys() - missing and _SILENT not in name]
    last = [_read_offsets(inner), *complete][-1]
    _read_offsets(fields)  # how far readers are from the tail
    waiting = _read_predecessors(fields)
    assigned = fields.mapping(fields.text, lambda: _read_offsets(fields))
    owners = {segment: reader for reader, own in assigned.items() for segment in own}
    offsets = {segment: at for own in (_read_offsets(fields), *assigned.values()) for segment, at in own.items()}
    return GroupProgress(offsets, set(assigned), owners, waiting, checkpoints, last, used=True)


def _read_offsets(fields: VersionedReader) -> Offsets:
    return fields.mapping(fields.text, lambda: fields.unpack("q")[0])


def _read_predecessors(fields: VersionedReader) -> dict[str, set[int]]:
    """Return segments with those that must be read before."""
    return fields.mapping(fields.text, lambda: {fields.unpack("q")[0] for _ in range(fields.compact_int())})
