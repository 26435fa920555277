"""`transformWithState` in Python, from a table to a table: state goes on where it stopped, and each row comes once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from tests.streams import PATIENCE

RESULT = "place STRING, id INT, number BIGINT"


def numbering(spoilt: int, pandas: bool, count_type: str = "BIGINT", more: bool = False) -> StatefulProcessor:
    """Number the rows of each place, over all micro-batches; an id that was seen before has its old number.

    `more`: there is one more variable of state.

    The id `spoilt` fails the task. The class is local, so that it is pickled whole: executors do not know this module.
    """

    class Numbering(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", f"value {count_type}")
            if more:
                self.more = handle.getValueState("more", "value STRING")
            self.numbers = handle.getMapState("numbers", "id INT", "number BIGINT")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timer_values: Any) -> Iterator[Any]:
            ids = [id for frame in rows for id in frame["id"].tolist()] if pandas else [row.id for row in rows]
            found = []
            for id in sorted(ids):
                if id == spoilt:
                    raise ValueError(f"{id} is spoilt")
                if not self.numbers.containsKey((id,)):
                    self.count.update(((self.count.get()[0] if self.count.exists() else 0) + 1,))
                    self.numbers.updateValue((id,), self.count.get())
                found.append((key[0], id, self.numbers.getValue((id,))[0]))
            if pandas:
                import pandas as pd

                yield pd.DataFrame(found, columns=["place", "id", "number"])
            else:
                yield from (Row(place=place, id=id, number=number) for place, id, number in found)

        def close(self) -> None:
            pass

    return Numbering()


@pytest.fixture
def numbered(spark: SparkSession, scope: str, tmp_path: Path) -> Iterator[Callable[..., list[tuple[int, int]]]]:
    """A function that appends ids in their order, runs a query, and returns ids and numbers of all rows written."""
    source, target = f"pravega.`{scope}`.events", f"pravega.`{scope}`.numbered"
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    store = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    session.conf.set("spark.sql.streaming.stateStore.providerClass", store)
    session.sql(f"CREATE TABLE {source} (id INT, place STRING)")
    session.sql(f"CREATE TABLE {target} ({RESULT}) TBLPROPERTIES ('scaling.min-segments'='2')")

    def run(
        first: int, last: int, *, pandas: bool, spoilt: int = -1, lost: int | None = None, **state: Any
    ) -> list[tuple[int, int]]:
        if last > first:
            rows = f"SELECT CAST(id AS INT), 'p' || (id % 2) FROM range({first}, {last}, 1, 1)"
            session.sql(f"INSERT INTO {source} {rows}")
        if lost is not None:
            for file in (f"{lost}", f".{lost}.crc"):
                (tmp_path / "commits" / file).unlink()
        groups = session.readStream.option("maxRowsPerTrigger", 10).table(source).groupBy("place")
        states: Callable[..., DataFrame] = groups.transformWithStateInPandas if pandas else groups.transformWithState
        frame = states(numbering(spoilt, pandas, **state), RESULT, "append", "None")
        query = frame.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).toTable(target)
        try:
            assert query.awaitTermination(PATIENCE)
        finally:
            query.stop()
        return sorted((row.id, row.number) for row in session.table(target).collect())

    yield run


@pytest.mark.pipelines
@pytest.mark.short
@pytest.mark.parametrize("pandas", [False, True], ids=["rows", "pandas"])
def test_state_goes_on_and_each_row_comes_once(numbered: Callable[..., list[tuple[int, int]]], pandas: bool) -> None:
    def expected(*ids: int) -> list[tuple[int, int]]:
        return sorted((id, id // 2 + 1) for id in ids)

    assert numbered(0, 20, pandas=pandas) == expected(*range(20))
    # The last micro-batch is done again, with the state of the one before it.
    assert numbered(0, 0, pandas=pandas, lost=1) == expected(*range(20))
    with pytest.raises(StreamingQueryException, match="38 is spoilt"):
        numbered(20, 40, pandas=pandas, spoilt=38)
    # Those of the micro-batch that failed, and some that state knows.
    assert numbered(0, 10, pandas=pandas) == expected(*range(40), *range(10))


@pytest.mark.pipelines
def test_the_schema_of_state_between_two_runs(numbered: Callable[..., list[tuple[int, int]]]) -> None:
    """Spark takes one more variable of state, and refuses another type of one that the checkpoint has."""
    numbered(0, 4, pandas=False)
    with pytest.raises(StreamingQueryException, match="STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"):
        numbered(4, 8, pandas=False, count_type="STRING")
    expected = sorted((id, id // 2 + 1) for id in range(8))
    assert numbered(0, 0, pandas=False, more=True) == expected
