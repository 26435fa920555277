"""The files of a lake's table, as its manifests list them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ..positions.snapshot import BEYOND
from .lake_columns import ERROR, OFFSET, RAW, SEGMENT

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

Expression: TypeAlias = Any
"""A condition on columns of a lake, as pyiceberg has it."""
_OWN_FILES = "pravega-"
"""The beginning of the names of files whose rows are events of one segment, in their order."""


@dataclass(frozen=True)
class LakeFile:
    """A file with offsets from `first` to `last`; if it is `ordered`, those of one segment in their order.

    `segment` is the first one by name, and `last_segment` the last one; None if it is not known. `empty` are the
    columns about bad events that have no value, as in most files.
    """

    path: str
    first: int
    last: int
    ordered: bool
    segment: str | None
    last_segment: str | None
    partition: Any
    bytes: int
    empty: frozenset[str]


def make_expression(name: str, *operands: Any) -> Expression:
    """Return an expression of one of pyiceberg's classes; its operands are expressions, names of columns and values."""
    return getattr(import_module("pyiceberg.expressions"), name)(*operands)


def name_file(number: str) -> str:
    """Return the name of a file whose rows are events of one segment, in their order."""
    return f"{_OWN_FILES}{number}.parquet"


def is_own_name(name: str) -> bool:
    """Return whether a file of this name was written by a tiering or a compaction."""
    return name.startswith(_OWN_FILES)


def list_files(table: Table, wanted: Expression) -> Iterator[LakeFile]:
    """Yield the files of a table that may have rows that fulfil an expression."""
    from pyiceberg.conversions import from_bytes
    from pyiceberg.types import PrimitiveType

    schema = table.schema()
    of_bad_events = {schema.find_field(name).field_id: name for name in (ERROR, RAW)}

    def find_bound(file: DataFile, column: str, upper: bool) -> Any:
        field, bounds = schema.find_field(column), file.upper_bounds if upper else file.lower_bounds
        bound = (bounds or {}).get(field.field_id)
        return None if bound is None else from_bytes(cast("PrimitiveType", field.field_type), bound)

    for task in table.scan(wanted).plan_files():
        file, nulls = task.file, task.file.null_value_counts or {}
        first, last = (find_bound(file, OFFSET, upper) for upper in (False, True))
        segment, last_segment = (find_bound(file, SEGMENT, upper) for upper in (False, True))
        has_own_name = is_own_name(file.file_path.rpartition("/")[2])
        yield LakeFile(
            path=file.file_path,
            first=first or 0,
            last=BEYOND if last is None else last,
            ordered=has_own_name and segment == last_segment and None not in (segment, first, last),
            segment=segment,
            last_segment=last_segment,
            partition=file.partition[0] if len(file.partition) else None,
            bytes=file.file_size_in_bytes,
            empty=frozenset(name for id, name in of_bad_events.items() if nulls.get(id) == file.record_count),
        )
