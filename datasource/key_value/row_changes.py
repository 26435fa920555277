"""The task's side of DELETE, UPDATE and MERGE on a key-value table: entries are replaced and removed by their keys."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pyspark_pravega.errors import InvalidRowError

from ..insert.task import InsertMessage
from ..user_errors import concise
from ..worker_connections import lent
from .keys import encode_keys
from .scan import keys_of, same_entries_of
from .write import UpsertSpec, Values, put_entries


class RowChangesWriter(DataSourceArrowWriter):
    """Spark's writer for tasks. Its rows have an `operation`, the old key as `id` and the new `row`, each if needed."""

    def __init__(self, spec: UpsertSpec) -> None:
        self._spec = spec

    @concise
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Make the changes of one task in their order; all are stored when this returns.

        Raises InvalidRowError, also for a row that would get another key.
        """
        spec, count = self._spec, 0
        with lent(spec.config) as pravega, ThreadPoolExecutor(8) as threads:
            entries = same_entries_of(pravega, spec.table)
            values = Values(spec) if spec.schema.fields else None
            for batch in iterator:
                count += batch.num_rows
                put_entries(entries, self._changed(batch, values), threads)
        return InsertMessage(0, count, {})

    def _changed(self, batch: pa.RecordBatch, values: Values | None) -> dict[bytes, bytes | None]:
        """Return the new value of each key, None for one that is to be removed."""
        keys, table = keys_of(self._spec.table), self._spec.table
        found: list[tuple[int, bytes, bytes | None]] = []
        for operation in ("delete", "update", "insert"):
            places = pc.indices_nonzero(pc.equal(batch.column("operation"), operation))
            if not len(places):
                continue
            chosen = batch.take(places)
            if operation == "delete":
                gone = encode_keys(keys, _columns(chosen, "id"))
                found += [(place, key, None) for place, key in zip(places.to_pylist(), gone, strict=True)]
                continue
            assert values is not None
            rows = _columns(chosen, "row")
            new = encode_keys(keys, rows)
            if operation == "update" and encode_keys(keys, _columns(chosen, "id")) != new:
                raise InvalidRowError(
                    f"Table {table.stream}: a row would get another key. The columns {', '.join(keys.names)} cannot "
                    "be changed: DELETE the row, and INSERT it with its new key. Other rows may have been changed."
                )
            found += zip(places.to_pylist(), new, values.of(rows), strict=True)
        return {key: value for _, key, value in sorted(found, key=lambda each: each[0])}


def _columns(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(batch.column(name))
