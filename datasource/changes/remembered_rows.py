"""Remembers the current rows that a scan has found, so that the next one reads only newer events.

The state of each group of segments is a file, as the states of streams of changes are. It is a fold of certain events:
byte ranges of segments, which never change. So a scan of these and later events may go on from it, whoever wrote it.
The name of a file has a hash of everything that the fold depends on, and so has its head. A state that is not exactly
what a scan needs is not used, and the scan reads all events.

A scan by key reads the blocks of its keys and all newer events. It cannot write a state without the rows of other keys,
so it reads and writes all once the newer events are many, or if there is no state that it can use.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pyspark_pravega.errors import SegmentNotFoundError
from pyspark_pravega.formats.changes.feed import list_key_columns
from pyspark_pravega.sql import options as o

from ..lake.open_lake import BELIEVED_SECONDS, find_history
from ..positions.snapshot import SegmentSlice
from ..scan.conditions import Condition
from ..scan.keyed_segments import list_possible_keys
from ..scan.planned_scan import Lookup, PlannedRows, TaskFiles
from ..scan.scan_request import WantedRows
from ..tables.bad_events import FAILFAST
from ..tables.open_table import OpenRead
from .group_reader import GroupPartition
from .key_blocks import BlockWriter, find_slots, read_blocks
from .rows.entries import name_value
from .rows.row_history import RowState
from .states import WHOLE, RowStates, hash_values, is_state, make_state_name, read_group, read_number

_LOG = logging.getLogger(__name__)

_FORMAT = 3
_KEPT = 2
"""How many states of a group stay: another scan may still read the one before the newest."""
_MOST_KEYS = 10_000
"""Most keys that are looked up: the driver computes a slot of each, and sends the slots to the tasks."""
_MOST_NEW_BYTES = 8 << 20
"""Most bytes of a group's newer events that scans by key read again and again."""
_SHARED_GROUPS = 4
_SHARED_SLOTS = 4
_SHARED_BYTES = 1 << 20
"""Most groups in which a task looks keys up, slots that it looks for, and bytes of newer events that it reads. More
take longer than to begin another task, above all in an object store, where each file is fetched by some requests;
but not than to wait for a core."""


@dataclass
class RememberedGroup:
    """The events of a group, the file of a state that may go before some of them, and the name of the state to write.

    `origin` is what a state of the group depends on besides its events. Of a state `before`, a scan by key needs what
    `lookup` says; it writes the state `after` only if it cannot use that.
    """

    events: GroupPartition
    origin: str
    before: str | None
    after: str | None
    lookup: Lookup | None = None

    @property
    def files(self) -> TaskFiles:
        """Return the files that the task needs for it."""
        return TaskFiles(() if self.before is None else (self.before,), self.after, self.lookup)

    def recall(self, opened: ExitStack, *, changing: bool = False) -> RowState | None:
        """Open the state `before`, which `opened` closes; None if there is none, or none that can be trusted.

        A statement that is `changing` rows must see whether any is a connector's, and so all if some may be.
        """
        if (file := self.before) is None:
            return None
        states, slots = RowStates(), None
        if self.lookup is not None:
            slots = self.lookup.slots
            if not (states.directory / file).exists():
                file = self.lookup.copy
        try:
            state = opened.enter_context(read_blocks(states.directory / file, slots))
            self._check(state)
            if slots is not None and changing and state.origins:  # a connector may have written other rows
                if file != self.before:
                    states.remove(file)  # so that RowFiles.java stores what the task writes
                    return None
                state = opened.enter_context(read_blocks(states.directory / file, None))
        except (OSError, ValueError, LookupError, TypeError, pa.ArrowException) as problem:
            before = self.before
            _LOG.warning("All events are read, because the remembered rows in %s cannot be used: %s", before, problem)
            states.remove(file)
            return None
        return state

    def _check(self, state: RowState) -> None:
        """Raise ValueError if a state is of other events."""
        if state.events["origin"] != self.origin:
            raise ValueError("they are of another table")
        pieces = {piece.segment_id: piece for piece in self.events.pieces}
        for segment, start, end in state.events["slices"]:
            piece = pieces.get(segment)
            if piece is None or piece.start != start or piece.end < end:
                raise ValueError(f"they have events of segment {segment} that the scan does not read")

    def without(self, state: RowState) -> GroupPartition:
        """Return the events after a state."""
        ends = {segment: end for segment, _, end in state.events["slices"]}
        pieces = [replace(one, start=ends.get(one.segment_id, one.start)) for one in self.events.pieces]
        return replace(self.events, pieces=tuple(piece for piece in pieces if piece.start < piece.end))

    @contextmanager
    def write(self, state: RowState, key: Sequence[str]) -> Iterator[Callable[[pa.Table], None]]:
        """Write the state `after`, which exists once the body has succeeded. Yields what takes its entries."""
        assert self.after is not None
        state = replace(state, events={"origin": self.origin, "slices": _describe(self.events.pieces)})
        former = [] if self.before is None else [self.before]
        with RowStates().write(self.after, former, partial(BlockWriter, key=key)) as writer:
            writer.add(state)
            yield lambda entries: writer.add(replace(state, entries=[[entries]]))


@dataclass
class RememberedPartition(InputPartition):
    """The groups that one task reads, one after the other."""

    groups: tuple[RememberedGroup, ...]


def find_folder(read: OpenRead) -> str | None:
    """Return the folder of the states of a table; None if its rows are not to be remembered.

    Bad events that are left out are reported by each scan, and so each scan must read them.
    """
    directory, table = read.options.get(o.CURRENT_ROWS_REMEMBERED_IN), read.table
    if directory is None or not list_key_columns(table.settings):
        return None
    if read.rule.mode != FAILFAST or not read.options.get(o.FAIL_ON_DATA_LOSS):
        return None
    return f"{directory.rstrip('/')}/{table.stream.scope}.{table.stream.name}-{_identify(read)}"


def _identify(read: OpenRead) -> str:
    """Return a hash of all that the states of a table depend on, besides its events."""
    table = read.table
    meaning = (table.format, table.framing, table.schema_text, table.schema.json(), dict(table.settings))
    return hash_values(_FORMAT, find_release(), str(read.pravega.config.controller_uri), str(table.stream), meaning)


def find_release() -> str:
    """Return the release of this software; "" if it is not installed. Another one may fold states in another way."""
    try:
        return metadata.version("pyspark-pravega")
    except metadata.PackageNotFoundError:
        return ""


def find_asked_slots(read: OpenRead, conditions: Sequence[Condition]) -> tuple[int, ...] | None:
    """Return the slots of the keys that rows must have to fulfil conditions; None if these can be any, or too many."""
    key = list_key_columns(read.table.settings)
    values = list_possible_keys(conditions, key, read.table.schema, _MOST_KEYS)
    if values is None:
        return None
    keys = pa.Table.from_batches([values]).rename_columns([*map(name_value, key)])
    return tuple(np.unique(find_slots(keys, key)).tolist())


def remember(
    read: OpenRead, partitions: Sequence[GroupPartition], folder: str, rows: WantedRows, *, write: bool
) -> tuple[list[RememberedPartition], PlannedRows]:
    """Return the partitions of a scan with the states that they go on from, and write if they are to write any."""
    files, slots = rows.files or (), find_asked_slots(read, rows.conditions)
    most = len(partitions) // (rows.cores or len(partitions) or 1)
    identity, created = _identify(read), _find_creation(read, partitions)
    remembered: list[RememberedPartition] = []
    kept, shared_bytes = set(), 0
    for partition in partitions:
        first, time = partition.pieces[0], created.get(partition.pieces[0].segment_id)
        # Another cluster at this address begins with the same numbers of segments, and retention removes events.
        origin = hash_values(identity, time, first.segment_id, first.start)
        size = sum(piece.end for piece in partition.pieces)
        name = make_state_name(origin, first.segment_id, size, _describe(partition.pieces))
        whole = (file for file in files if is_state(file) and file.endswith(WHOLE))
        states = sorted((one for one in whole if read_group(one) == read_group(name)), key=read_number, reverse=True)
        kept.update(states[:_KEPT])
        before = next((file for file in states if read_number(file) <= size), None)
        if time is None:
            before, name = None, ""
        lookup, newer = None, size if before is None else size - read_number(before)
        if slots is not None and before is not None and newer <= _MOST_NEW_BYTES:
            lookup = Lookup(slots, f".{uuid4()}")
        group = RememberedGroup(partition, origin, before, name if name and write else None, lookup)
        shared_bytes += newer
        if remembered and _can_join(remembered[-1], group, most) and shared_bytes <= _SHARED_BYTES:
            remembered[-1] = RememberedPartition((*remembered[-1].groups, group))
        else:
            remembered.append(RememberedPartition((group,)))
            shared_bytes = newer
    tasks = [tuple(one.files for one in partition.groups) for partition in remembered]
    obsolete = [file for file in files if is_state(file) and file not in kept] if write else []
    return remembered, PlannedRows(0, None, tuple(obsolete), tuple(tasks), folder)


def _can_join(partition: RememberedPartition, group: RememberedGroup, most: int) -> bool:
    """Return whether the task of some groups may look keys up in another one too, `most` for a task on each core."""
    lookups = [one.lookup for one in (*partition.groups, group)]
    few = len(lookups) <= _SHARED_GROUPS and all(one and len(one.slots) <= _SHARED_SLOTS for one in lookups)
    return few or (len(lookups) <= most and None not in lookups)


def _find_creation(read: OpenRead, partitions: Sequence[GroupPartition]) -> Mapping[int, int | str | None]:
    """Return when the first segment of each group was created, by segment, as far as that is known.

    Of a stream with a lake, it is what the lake knows of the stream: the segment may be gone.
    """
    segments = [one.pieces[0].segment_id for one in partitions]
    if (history := find_history(read, oldest=BELIEVED_SECONDS)) is not None:
        return dict.fromkeys(segments, history.identity)
    try:
        return read.pravega.segments.creation_times(read.stream, segments)
    except SegmentNotFoundError:
        return {}  # retention has just removed it, and the scan will say so


def _describe(pieces: Sequence[SegmentSlice]) -> list[list[int]]:
    return [[piece.segment_id, piece.start, piece.end] for piece in pieces]
