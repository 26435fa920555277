"""Makes the columns of the changelog from native envelopes: records with `op`, images, `source` and times."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from ..core.batches import PayloadReader
from ..core.columns import Problems
from ..core.events import EventBuffer
from ..native import Unplanned
from .feed import CREATE, MARKS, OPERATIONS, READ, READ_BY_SNAPSHOT, UPSERTS
from .source_positions import SOURCE_TYPE, make_position_arrays, make_timestamps

_SNAPSHOT = pa.field("snapshot", pa.string())
_OF_MARKS = ("schema", "table")
"""Members of a source block that marks need besides SOURCE_TYPE and `snapshot`."""
_READ_BY_SNAPSHOT = pa.array(READ_BY_SNAPSHOT)
_OPERATIONS = pa.array(OPERATIONS)
_NEEDS_AFTER = np.array([*(letter in UPSERTS for letter in OPERATIONS), False])


class EnvelopeColumns:
    """The wanted columns: their `names`, and the type of the `source` block that they need."""

    def __init__(self, reference: PayloadReader, schema: StructType) -> None:
        """Take the columns. Raises Unplanned for those that only the reference can make."""
        if "source" in schema.names:
            raise Unplanned("the column 'source' holds a whole source block")
        self.names = schema.names
        marked = [pa.field(name, pa.string()) for name in _OF_MARKS] if MARKS.name in schema.names else []
        self.source = pa.struct([*SOURCE_TYPE, _SNAPSHOT, *marked])
        self._types = [array.type for array in reference.arrays(EventBuffer.of([]), False, Problems())]

    def check(self, rows: pa.RecordBatch) -> None:
        """Raise Unplanned if envelopes of this kind do not give the columns' types."""
        if [array.type for array in self.make(rows)] != self._types:
            raise Unplanned("a column has a type that the native decoder cannot give exactly")

    def make(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """Return one array for each column."""
        arrays = []
        for name, type in zip(self.names, self._types, strict=True):
            if name == "ts":
                array = make_timestamps(rows.column("ts_us"), rows.column("ts_ms"))
            elif name == "op":
                array = _find_operations(rows)
            elif name == "unavailable":
                # The reference reads events with such columns, which are among the suspects.
                zeros = pa.py_buffer(bytes(4 * (len(rows) + 1)))
                offsets = pa.Array.from_buffers(pa.int32(), len(rows) + 1, [None, zeros])
                array = pa.ListArray.from_arrays(offsets, pa.array([], pa.string()), type=type)
            elif name == "position":
                source = rows.column("source")
                members = make_position_arrays(source)
                chosen = [members[member.name] for member in type]
                array = pa.StructArray.from_arrays(chosen, fields=list(type), mask=source.is_null())
            elif name == MARKS.name:
                source = rows.column("source")
                block = dict(zip(source.type.names, source.flatten(), strict=True))
                array = pa.StructArray.from_arrays(
                    [block[member.name] for member in type], fields=list(type), mask=source.is_null()
                )
            else:
                array = rows.column(name)
            arrays.append(array)
        return arrays


def _find_operations(rows: pa.RecordBatch) -> pa.Array:
    """Return the operations, READ for all rows of whole snapshots, whatever letter they came with."""
    operations = rows.column("op")
    snapshot = rows.column("source").field("snapshot")
    read = pc.and_(pc.is_in(snapshot, _READ_BY_SNAPSHOT), pc.equal(operations, CREATE))
    return pc.if_else(pc.fill_null(read, False), READ, operations)


def find_plain(rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Return which envelopes have an operation, and the rows that it needs."""
    codes = pc.fill_null(pc.index_in(rows.column("op"), _OPERATIONS), len(OPERATIONS)).to_numpy(zero_copy_only=False)
    plain: npt.NDArray[np.bool_] = codes < len(OPERATIONS)
    after = rows.column("after")
    if after.null_count:
        plain &= ~_NEEDS_AFTER[codes] | after.is_valid().to_numpy(zero_copy_only=False)
    return plain
