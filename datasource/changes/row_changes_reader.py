"""Reads the changes of the rows of a table of changes: one partition per group of segments that share keys.

In a stream of changes, a partition has the new events of such a group, and those before them: these are read only where
the states that they lead to are not known.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from pyspark_pravega.errors import DataLossError, MalformedEventError
from pyspark_pravega.formats.changes.feed import key_columns

from ..scan.reader import BATCH_EVENTS, PlannedReader
from ..tables.change_range import Bounds
from .group_reader import GroupPartition, GroupPlan, group_changes, keyless_rows
from .rows.entries import UNKNOWN, Numbers, numbers_of, value_name
from .rows.history import RowHistory, Truncation, Within
from .states import RowStates

_LOG = logging.getLogger(__name__)

_KINDS = pa.array(["insert", "delete", "update_preimage", "update_postimage"])
"""Spark's names of INSERT, DELETE, BEFORE, AFTER."""


@dataclass(frozen=True)
class ChangesPlan:
    """All that tasks share. `truncations` are those of all segments, None if a task reads them all anyway."""

    rows: GroupPlan
    bounds: Bounds
    truncations: tuple[Truncation, ...] | None


class ChangesReader(PlannedReader[ChangesPlan, GroupPartition]):
    """One partition per group, whose rows' changes come in their order."""

    def batches(self, partition: GroupPartition) -> Iterator[pa.RecordBatch]:
        """Read the changes of the group's rows."""
        plan = self._plan
        if not key_columns(plan.rows.table.settings):
            wanted = [name for name in plan.rows.schema.names if name in plan.rows.table.schema.names]
            for table in keyless_rows(plan.rows, partition, wanted, plan.bounds):
                yield from _output(plan.rows, table)
            return
        with _history(plan.rows, plan.truncations, plan.bounds) as history:
            yield from _fed(plan.rows, history, partition)
            for table in history.rest():
                yield from _output(plan.rows, table)


@dataclass
class NewChangesPartition(InputPartition):
    """The new events of a group of segments and those before, with the names of the states that they lead to."""

    past: GroupPartition
    new: GroupPartition
    before: str
    after: str
    lost: bool
    """Whether some of the events before are there no more."""

    @property
    def affinity(self) -> int:
        """Return a number that partitions of the same keys share, unless segments are merged."""
        return int(self.after.split("-")[1])


@dataclass(frozen=True)
class NewChangesPlan:
    """All that tasks share. `truncations` are those among the new events, `past` those among the ones before."""

    rows: GroupPlan
    bounds: Bounds
    past: tuple[Truncation, ...] | None
    truncations: tuple[Truncation, ...] | None


class NewChangesReader(PlannedReader[NewChangesPlan, NewChangesPartition]):
    """One partition per group that has new events, or rows that a new truncation deletes."""

    def batches(self, partition: NewChangesPartition) -> Iterator[pa.RecordBatch]:
        """Read the new changes of the group's rows."""
        plan, states = self._plan, RowStates()
        with ExitStack() as opened:
            history = opened.enter_context(_history(plan.rows, plan.truncations, plan.bounds))
            state = opened.enter_context(states.read(partition.before))
            if state is None:
                self._read_past(partition, states)
                state = opened.enter_context(states.read(partition.before))
            assert state is not None
            history.resume(state)
            yield from _fed(plan.rows, history, partition.new)
            keep = opened.enter_context(states.write(partition.after, partition.before))
            for table in history.rest(keep):
                yield from _output(plan.rows, table)

    def _read_past(self, partition: NewChangesPartition, states: RowStates) -> None:
        """Find out the state before the new events."""
        plan = self._plan
        stream = plan.rows.table.stream
        if partition.lost:
            raise DataLossError(
                f"Rows of stream {stream} are not known here any more, and some of the events that led to them were "
                "removed. Start the query with a new checkpoint, or set 'fail-on-data-loss' to false to go on with "
                "what is left."
            )
        if partition.past.pieces:
            _LOG.warning("Stream %s is read from its start, because its rows are not known here.", stream)
        with _history(plan.rows, plan.past, _nothing) as past, states.write(partition.before, None) as keep:
            for _ in (*_fed(plan.rows, past, partition.past), *past.rest(keep)):
                raise AssertionError("a change that is not wanted was given out")


def _nothing(versions: Numbers, times: Numbers) -> npt.NDArray[np.bool_]:
    return np.zeros(len(versions), np.bool_)


def _history(rows: GroupPlan, truncations: Sequence[Truncation] | None, within: Within) -> RowHistory:
    key = key_columns(rows.table.settings)
    # All columns are compared, so that what is a change does not depend on what is asked for.
    columns = [name for name in rows.table.schema.names if name not in key]
    return RowHistory(key, columns, rows.memory, truncations, within)


def _fed(rows: GroupPlan, history: RowHistory, group: GroupPartition) -> Iterator[pa.RecordBatch]:
    key = key_columns(rows.table.settings)
    columns = [*key, *(name for name in rows.table.schema.names if name not in key)]
    for changes, locations in group_changes(rows, group, columns, rows.table.schema):
        for table in history.feed(changes, locations):
            yield from _output(rows, table)


def _output(plan: GroupPlan, history: pa.Table) -> Iterator[pa.RecordBatch]:
    schema: pa.Schema = to_arrow_schema(plan.schema, timezone="UTC")
    for name in key_columns(plan.table.settings):
        if history.column(value_name(name)).null_count:
            raise MalformedEventError(
                f"A change of stream {plan.table.stream} has no value in column '{name}', which is part of the "
                "primary key. Read the table's changelog."
            )
    for begin in range(0, len(history), BATCH_EVENTS):
        part = history.slice(begin, BATCH_EVENTS)
        arrays = [_column(part, field) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(history: pa.Table, field: pa.Field) -> pa.Array:
    if field.name == "_change_type":
        return pc.take(_KINDS, history.column("change").combine_chunks())
    if field.name == "_commit_version":
        return history.column("version").combine_chunks()
    if field.name == "_commit_timestamp":
        times = numbers_of(history, "timestamp")
        return pa.array(times, mask=times == UNKNOWN).cast(pa.timestamp("us", "UTC"))
    array = history.column(value_name(field.name)).combine_chunks()
    return array if array.type == field.type else array.cast(field.type)
