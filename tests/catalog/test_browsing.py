"""What tools do to show what there is: lists of tables with what they are, and what others change meanwhile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pyspark_pravega.catalog import connect
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.datasource.tables.stored_properties import make_tags
from pyspark_pravega.local.state import ClusterInfo

TABLES = 40
"""So many that some are loaded before Spark asks for them."""


def names(number: int) -> str:
    return f"t_{number:02}"


@pytest.fixture
def namespace(spark: SparkSession, pravega: Pravega, scope: str) -> str:
    """A namespace of many tables, each with a comment of its own, and one that cannot be read."""

    def make(number: int) -> None:
        tags = make_tags({"format": "raw", "comment": f"number {number}"})
        pravega.controller.create_stream(Stream(scope, f"t-{number:02}"), StreamConfiguration(tags=tags))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(make, range(TABLES)))
    spark.sql(f"CREATE TABLE pravega.`{scope}`.t_07_broken (id INT) USING pravega")
    pravega.registry(scope).delete_group("t-07-broken")
    return f"pravega.`{scope}`"


def test_tables_are_shown_with_what_they_are(spark: SparkSession, namespace: str) -> None:
    for pattern, numbers in (("*", range(TABLES)), ("t_1*", range(10, 20)), ("*_?9|t_2*", [9, *range(19, 30), 39])):
        rows = spark.sql(f"SHOW TABLE EXTENDED IN {namespace} LIKE '{pattern}'").collect()
        # Spark adds the temporary views of the session, which other tests share.
        shown = {row.tableName: row.information for row in rows if not row.isTemporary}
        broken = shown.pop("t_07_broken", None)
        assert list(shown) == list(map(names, numbers)), pattern
        assert all(f"Comment: number {number}\n" in shown[names(number)] for number in numbers)
        assert (broken is not None) == (pattern == "*")
        assert broken is None or "Comment: [PRAVEGA_SCHEMA_NOT_FOUND] " in broken
    listed = {table.name: table.description for table in spark.catalog.listTables(namespace)}
    assert listed.pop("t_07_broken") is None  # Spark logs why
    assert listed == {names(number): f"number {number}" for number in range(TABLES)}


def test_what_exists_and_what_does_not(spark: SparkSession, namespace: str) -> None:
    there = ("t_01", "t_01.history", "t_07_broken", "t_07_broken.segments")
    missing = ("t_99", "t_01.nothing", "t_99.history", "`t_01$typo`", "t_01.history.more")
    assert [name for name in (*there, *missing) if spark.catalog.tableExists(f"{namespace}.{name}")] == list(there)
    functions = ("t_01.segment_of", "t_01.nothing", "t_99.segment_of")
    assert [name for name in functions if spark.catalog.functionExists(f"{namespace}.{name}")] == ["t_01.segment_of"]
    with pytest.raises(AnalysisException, match="Its metadata tables are history, segments"):
        spark.table(f"{namespace}.t_01.nothing")
    with pytest.raises(AnalysisException, match="PRAVEGA_SCHEMA_NOT_FOUND"):
        spark.table(f"{namespace}.t_07_broken")


def test_the_next_statement_sees_what_another_program_changed(
    spark: SparkSession, cluster: ClusterInfo, scope: str
) -> None:
    name = f"pravega.`{scope}`.t"
    count = f"SELECT count(*) FROM {name}"
    spark.sql(f"CREATE TABLE {name} (id INT) USING pravega")
    with connect(controller_uri=cluster.controller_uri, schema_registry_uri=cluster.registry_uri) as other:
        table = other.load_table(f"`{scope}`.t")
        table.append(pa.table({"id": pa.array([1], pa.int32())}))
        assert spark.sql(count).first() == (1,)
        table.add_column(pa.field("text", pa.string()))
        assert spark.table(name).columns == ["id", "text"]
        table.set_properties({"comment": "by another"})
        comments = [row.data_type for row in spark.sql(f"DESCRIBE EXTENDED {name}").collect() if row[0] == "Comment"]
        assert comments == ["by another"]
        # Rows that Spark keeps stay until it is told to forget them.
        spark.sql(f"CACHE TABLE {name}")
        table.append(pa.table({"id": pa.array([2], pa.int32())}))
        assert spark.sql(count).first() == (1,)
        spark.sql(f"REFRESH TABLE {name}")
        assert spark.sql(count).first() == (2,)
        spark.sql(f"UNCACHE TABLE {name}")
        other.create_table(f"`{scope}`.u", table.schema)
        assert [row.tableName for row in spark.sql(f"SHOW TABLES IN pravega.`{scope}`").collect()] == ["t", "u"]
        other.drop_table(f"`{scope}`.t")
        assert not spark.catalog.tableExists(name)
        other.create_table(f"`{scope}`.t", pa.schema([("other", pa.float64())]))
        assert spark.table(name).columns == ["other"] and spark.sql(count).first() == (0,)
