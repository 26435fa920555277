"""Builds columns from the values of unions, which are read as (branch, value), and from no value at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..core.columns import Column, Problems, Rows


class Constant(Column):
    """Builds the same value for every row."""

    def __init__(self, path: str, one: pa.Array) -> None:
        super().__init__(path, one.type)
        self.one = one

    def build(self, values: Sequence[Any], rows: Rows, problems: Problems) -> pa.Array:
        return self.one.take(pa.array(np.zeros(len(values), np.int64)))


class BranchColumn(Column):
    """Builds one column from values of several writer's types, as (branch, value)."""

    def __init__(
        self, path: str, arrow_type: pa.DataType, columns: Mapping[int, Column], refused: Mapping[int, str]
    ) -> None:
        super().__init__(path, arrow_type)
        self._columns = columns
        self._refused = refused

    def build(self, values: Sequence[Any], rows: Rows, problems: Problems) -> pa.Array:
        branches = np.fromiter((-1 if value is None else value[0] for value in values), np.int64, len(values))
        numbers = np.full(len(values), -1, np.int64)
        parts = [pa.nulls(0, self.type)]
        done = 0
        for branch in np.unique(branches).tolist():
            here = np.flatnonzero(branches == branch)
            column = self._columns.get(branch)
            if column is not None:
                numbers[here] = np.arange(done, done + len(here))
                parts.append(column.build([values[place][1] for place in here.tolist()], rows[here], problems))
                done += len(here)
            elif branch in self._refused:
                for place in here:
                    self.misfit(rows[place], self._refused[branch], problems)
        return pa.concat_arrays(parts).take(pa.array(numbers, mask=numbers < 0))


class MembersColumn(Column):
    """Builds a struct with one member set from values of a union of several types, as (branch, value)."""

    def __init__(
        self,
        path: str,
        arrow_type: pa.StructType,
        members: Mapping[int, BranchColumn],
        known: Mapping[int, int],
        refused: Mapping[int, str],
    ) -> None:
        super().__init__(path, arrow_type)
        self._members = members
        self._known = known
        self._refused = refused

    def build(self, values: Sequence[Any], rows: Rows, problems: Problems) -> pa.Array:
        numbers = []
        for value, row in zip(values, rows, strict=True):
            place = None if value is None else self._known.get(value[0])
            if value is not None and value[0] in self._refused:
                self.misfit(row, self._refused[value[0]], problems)
            numbers.append(place)
        children = []
        for member, column in self._members.items():
            own = [value if place == member else None for value, place in zip(values, numbers, strict=True)]
            children.append(column.build(own, rows, problems))
        mask = pa.array([place is None for place in numbers], pa.bool_())
        return pa.StructArray.from_arrays(children, fields=list(self.type), mask=mask)
