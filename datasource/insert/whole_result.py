"""The task's side of output mode `complete`: writes by which changes a whole result replaces the rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition, WriterCommitMessage

from pyspark_pravega.errors import InvalidRowError, shorten
from pyspark_pravega.formats.core.arrow_types import arrow_schema, replace_char_types
from pyspark_pravega.formats.core.spark_types import make_nullable
from pyspark_pravega.formats.core.text_lengths import make_length_check

from ..scan.planned_scan import PlannedReader
from ..tables.hidden_columns import FORMER_ROW
from ..tables.row_keys import write_primary_key
from .change_task import DELETED, INSERTED, UPDATED, ChangesWriter
from .reports import InsertMessage
from .task import InsertSpec


@dataclass(frozen=True)
class FormerRows:
    """All rows of the table as they are before a result: how a task reads them, and where their events end."""

    reader: PlannedReader[Any, Any]
    partitions: Sequence[InputPartition]
    ends: Mapping[int, int]

    def batches(self) -> Iterator[pa.RecordBatch]:
        for partition in self.partitions:
            yield from self.reader.batches(partition)


class WholeResultWriter(ChangesWriter):
    """Spark's writer for the only task of a micro-batch, whose rows are those that the table has afterwards.

    Rows that stay the same write nothing; former rows that the result lacks are deleted. The result is in memory.
    """

    def __init__(self, spec: InsertSpec, former: FormerRows) -> None:
        super().__init__(replace(spec, schema=spec.table.schema))
        self._former = former
        self._schema = arrow_schema(make_nullable(replace_char_types(spec.table.schema)))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        report = super().write(self._compare(iterator))
        assert isinstance(report, InsertMessage)
        report.ends = self._former.ends
        return report

    def _compare(self, result: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the changes that lead from the former rows to the result, as `ChangesWriter` takes them."""
        table = self._spec.table
        write = write_primary_key(table, table.schema)
        fit_lengths = make_length_check(table.schema)
        rows = pa.Table.from_batches((fit_lengths(self._select(one)) for one in result), self._schema).combine_chunks()
        after = rows.to_struct_array().combine_chunks() if len(rows) else pa.array([], pa.struct(self._schema))
        keys = write(pa.RecordBatch.from_struct_array(after))
        counted = pc.value_counts(keys)
        if len(counted) < len(keys):
            twice = counted.filter(pc.greater(counted.field("counts"), 1))[0]["values"].as_py()
            raise InvalidRowError(
                f"the result has more than one row of the key {shorten(twice)}, but in outputMode('complete') it has "
                "all rows of the table, each once. Group by the primary key"
            )
        is_new = np.ones(len(keys), np.bool_)
        for batch in self._former.batches():
            if batch.num_rows:
                before = self._select(batch).to_struct_array()
                places = pc.index_in(write(batch), value_set=keys)
                is_new[places.drop_null()] = False
                yield _make_changes(pc.if_else(places.is_valid(), UPDATED, DELETED), before, after.take(places))
        if is_new.any():
            new = after.filter(pa.array(is_new))
            yield _make_changes(pa.array([INSERTED] * len(new)), pa.nulls(len(new), new.type), new)

    def _select(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with the columns of the table, in their order."""
        columns = [batch.column(field.name).cast(field.type) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _make_changes(operations: pa.Array, before: pa.StructArray, after: pa.StructArray) -> pa.RecordBatch:
    former = pa.StructArray.from_arrays([before], names=[FORMER_ROW])
    return pa.record_batch([operations, former, after], names=["operation", "former", "row"])
