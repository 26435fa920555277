"""upsert and append: rows of tables of changes by their keys, which replace others or may not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyspark_pravega.catalog import PravegaCatalog
from pyspark_pravega.catalog.api.table import Table
from pyspark_pravega.catalog.writing.row_changes import open_rows
from pyspark_pravega.datasource.changes.conflicts import check_still_without, find_ends_without
from pyspark_pravega.datasource.data_source import PravegaDataSource
from pyspark_pravega.datasource.tables.row_keys import hash_primary_key
from pyspark_pravega.errors import (
    DuplicateKeyError,
    InvalidOptionError,
    InvalidRowError,
    InvalidSchemaError,
    UnsupportedOperationError,
)
from pyspark_pravega.local.state import ClusterInfo

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])


def create(api: PravegaCatalog, scope: str, **more: str) -> Table:
    properties = {"format": "debezium-json", "primary-key": "id", "scaling.min-segments": "2", **more}
    return api.create_table(f"`{scope}`.customers", SCHEMA, properties=properties)


def names(table: Table) -> dict[int, str]:
    return {row["id"]: row["name"] for row in table.scan().to_arrow().to_pylist()}


def test_rows_replace_those_of_their_keys(api: PravegaCatalog, scope: str) -> None:
    table = create(api, scope, **{"insert.conflict": "fail"})
    assert table.upsert(pa.table({"id": [1, 2], "name": ["a", "b"]})) == 2
    assert table.upsert(pa.table({"name": ["c", "d"], "id": [2, 3]}).to_reader()) == 2
    assert names(table) == {1: "a", 2: "c", 3: "d"}
    assert [(each.operation, each.rows) for each in table.history()] == [("UPSERT", 2), ("UPSERT", 2)]


def test_upserts_that_are_refused(api: PravegaCatalog, scope: str) -> None:
    table, rows = create(api, scope), pa.table({"id": [1, 1], "name": ["a", "b"]})
    with pytest.raises(InvalidRowError, match='The UPSERT changes the row of the key {"id":1} more than once'):
        table.upsert(rows)
    with pytest.raises(InvalidOptionError, match="'txn-app-id' is for INSERT"):
        table.upsert(rows.slice(1), options={"txn-app-id": "a", "txn-version": "1"})
    with pytest.raises(InvalidSchemaError, match="The rows lack NOT NULL columns: id"):
        table.upsert(rows.select(["name"]))
    assert names(table) == {} and table.history() == []
    for name, properties, message in (
        ("events", {}, "upsert is not possible on .*events cannot be changed"),
        ("keyless", {"format": "debezium-json"}, "upsert is not possible on .*no primary key"),
        ("entries", {"format": "kvtable", "primary-key": "id"}, "append replaces the rows of the same keys"),
    ):
        with pytest.raises(UnsupportedOperationError, match=message):
            api.create_table(f"`{scope}`.{name}", SCHEMA, properties=properties).upsert(rows)


def test_appended_rows_may_not_replace_others(api: PravegaCatalog, scope: str) -> None:
    table = create(api, scope, **{"insert.conflict": "fail", "format": "debezium-avro"})
    table.append(pa.table({"id": [1, 2]}))
    for ids, message in (([3, 1], '{"id":1}, .* or upsert in Python'), ([4, 4], 'The INSERT .* the key {"id":4} more')):
        with pytest.raises(DuplicateKeyError, match=message):
            table.append(pa.table({"id": ids}))
    with pytest.raises(UnsupportedOperationError, match="'txn-app-id' is not compared with the keys that exist"):
        table.append(pa.table({"id": [5]}), options={"txn-app-id": "a", "txn-version": "1"})
    assert set(names(table)) == {1, 2} and len(table.history()) == 1


def test_spark_without_the_adapters_jar_is_refused(api: PravegaCatalog, cluster: ClusterInfo, scope: str) -> None:
    table = create(api, scope, **{"insert.conflict": "fail"})
    place = {"controller-uri": cluster.controller_uri, "scope": scope, "stream": "customers"}
    source = PravegaDataSource(place | {"schema-registry-uri": str(cluster.registry_uri)})
    with pytest.raises(UnsupportedOperationError, match="'fail' without the adapter's jar is not possible .* session"):
        source.writer(table.spark_schema, overwrite=False)


def test_a_key_that_comes_after_the_table_was_searched(api: PravegaCatalog, scope: str) -> None:
    table = create(api, scope, **{"insert.conflict": "fail"})
    table.append(pa.table({"id": [1, 2]}))
    read = open_rows(api._catalog, table._described.table)
    keys = hash_primary_key(read.table, read.table.schema)(pa.record_batch({"id": pa.array([7, 8], pa.int64())}))
    ends = find_ends_without(read, keys)
    table.append(pa.table({"id": [3]}))
    table.delete()
    check_still_without(read, ends, keys)
    table.append(pa.table({"id": [8]}))
    with pytest.raises(DuplicateKeyError, match='has a row of the key {"id":8}'):
        check_still_without(read, ends, keys)
