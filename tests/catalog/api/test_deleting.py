"""delete: rows of a table of changes go in one transaction, as by Spark's DELETE."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.catalog import PravegaCatalog
from pyspark_pravega.catalog.api.row_writes import delete
from pyspark_pravega.catalog.api.scan import make_scan
from pyspark_pravega.errors import ConcurrentChangeError, InvalidOptionError, UnsupportedOperationError

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("n", pa.decimal128(5, 2))])
PROPERTIES = {"format": "debezium-json", "primary-key": "id", "scaling.min-segments": "2"}


def test_rows_are_deleted_in_one_version(spark: SparkSession, api: PravegaCatalog, scope: str) -> None:
    table = api.create_table(f"`{scope}`.customers", SCHEMA, properties=PROPERTIES)
    table.append(pa.table({"id": range(100), "name": [f"name {number}" for number in range(100)]}))
    assert table.append(pa.table({"id": [7], "name": ["again"]})) == 1
    assert table.delete((pc.field("id") >= 10) & (pc.field("name") != "name 50")) == 89
    assert table.delete(pc.field("id") == 1000) == 0
    assert [(each.operation, each.rows) for each in table.history()] == [("INSERT", 100), ("INSERT", 1), ("DELETE", 89)]
    left = {7: "again", 50: "name 50"} | {number: f"name {number}" for number in range(10) if number != 7}
    assert {row["id"]: row["name"] for row in table.scan().to_arrow().to_pylist()} == left
    assert {row.id: row.name for row in spark.table(table.name).collect()} == left
    changes = spark.sql(f"SELECT * FROM {table.name} CHANGES FROM VERSION '3' TO VERSION '3'").collect()
    assert sorted((row.id, row._change_type) for row in changes) == [
        (id, "delete") for id in range(10, 100) if id != 50
    ]
    assert table.delete() == 11 and table.scan().count() == 0


def test_a_deletion_depends_on_what_it_has_read(api: PravegaCatalog, scope: str) -> None:
    table = api.create_table(f"`{scope}`.customers", SCHEMA, properties=PROPERTIES)
    table.append(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
    for late, conflicts in (({"id": [9], "name": ["z"]}, False), ({"id": [8], "name": ["b"]}, True)):
        scan = make_scan(api._catalog, table._described, None, pc.field("name") == "b", None, {})
        planned = scan.plan()
        object.__setattr__(scan, "plan", lambda planned=planned: planned)
        table.append(pa.table(late))
        if conflicts:
            with pytest.raises(ConcurrentChangeError, match="would have read"):
                delete(scan, {})
        else:
            assert delete(scan, {}) == 1
            table.append(pa.table({"id": [2], "name": ["b"]}))
    assert table.scan(["id"]).to_arrow().sort_by("id")["id"].to_pylist() == [1, 2, 3, 8, 9]


def test_what_cannot_be_deleted(api: PravegaCatalog, scope: str) -> None:
    events = api.create_table(f"`{scope}`.events", SCHEMA)
    with pytest.raises(UnsupportedOperationError, match="DELETE is not possible"):
        events.delete(pc.field("id") == 1)
    keyless = api.create_table(f"`{scope}`.keyless", SCHEMA, properties={"format": "debezium-json"})
    with pytest.raises(UnsupportedOperationError, match="no primary key"):
        keyless.delete()
    table = api.create_table(f"`{scope}`.customers", SCHEMA, properties=PROPERTIES)
    with pytest.raises(InvalidOptionError, match="nobody"):
        table.delete(pc.field("nobody") == 1)
    with pytest.raises(InvalidOptionError, match="does not fit the columns id, name, n: .* Compare a decimal with"):
        table.delete(pc.field("n") < 0)
    table.append(pa.table({"id": [1, 2], "n": [Decimal(-5), Decimal(5)]}))
    assert table.delete(pc.field("n") < Decimal("0")) == 1
