"""How a task tells what it has counted: in few rows, each of which Spark handles as one of the table."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyspark_pravega.datasource.scan.counts import Counts, find_counts
from tests.datasource.scans import add_counts

SCHEMA = pa.schema([("k", pa.int32()), ("_counts", pa.bool_())])


@pytest.mark.parametrize(
    ("counts", "rows"),
    [
        (Counts(), 48),  # a positioned scan says how far it is, and must not seem to have a row
        (Counts(bytes=8 << 20, waited=250), 96),
        (Counts(bad_events=1, left_out=2, sieved=3, slices=4, bytes=2**44, waited=5, retries=2**45 - 1), 7 * 48),
    ],
)
def test_numbers_that_are_not_0_take_48_rows_each(counts: Counts, rows: int) -> None:
    batch = counts.batch(SCHEMA)
    column = find_counts(batch)
    assert column is not None and column.null_count == 0 and len(column) == rows
    assert add_counts(column.to_pylist()) == counts
