"""The INSERTs of the service, where a commit ends by a defect or without an answer of servers."""

from __future__ import annotations

import base64
import pickle
import threading
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from pyspark_pravega.catalog.creation.making import create
from pyspark_pravega.catalog.protocol.service_replies import InsertHandle
from pyspark_pravega.catalog.protocol.table_requests import CreateTable
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.catalog.writing.insert_start import InsertEnd, InsertStart
from pyspark_pravega.catalog.writing.open_writes import Inserts
from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.datasource.kinds.opening import open_table
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import ServerUnavailableError, TransactionOutcomeUnknownError
from tests.datasource.insert.test_atomicity import wait_until

SCHEMA = StructType([StructField("id", IntegerType())])


def begin(inserts: Inserts, catalog: Catalog, table: StreamTable) -> InsertHandle:
    prepared = open_table(catalog.pravega, table, catalog.options()).prepare_insert(SCHEMA)
    return inserts.begin(catalog, prepared, InsertStart(1, SCHEMA, 2, {})).insert


@pytest.mark.parametrize("service", [lambda inserts: inserts, lambda inserts: Inserts()], ids=["same", "another"])
def test_a_commit_that_fails_by_a_defect_leaves_the_rest_to_the_lease(
    client_config: ClientConfig, scope: str, service: Callable[[Inserts], Inserts]
) -> None:
    """The driver does not abort after it has asked for the commit."""
    conf = {"controller-uri": client_config.controller_uri, "schema-registry-uri": str(client_config.registry_uri)}
    with connect(client_config) as pravega:
        catalog, inserts = Catalog(conf, pravega), Inserts()
        table = create(catalog, CreateTable.of([scope], "t", SCHEMA, {}, adopt=False)).table
        insert = begin(inserts, catalog, table)
        finishing = service(inserts)
        with pytest.raises(pickle.UnpicklingError):
            finishing.commit(catalog, table, InsertEnd(insert, [base64.b64encode(b"junk").decode()], again=False))
        if finishing is not inserts:
            inserts.abort(catalog, table, insert)
        wait_until(lambda: not _keeps_alive(insert), "the end of the keep-alive")


def test_an_outcome_that_no_server_tells_is_called_unknown(client_config: ClientConfig, scope: str) -> None:
    """The service before this one died in the commit, and the controller with it."""
    conf = {"controller-uri": client_config.controller_uri, "schema-registry-uri": str(client_config.registry_uri)}
    dead = ClientConfig("tcp://localhost:1", retry_timeout=0.1)
    with connect(client_config) as pravega, connect(dead) as nobody:
        inserts = Inserts()
        table = create(Catalog(conf, pravega), CreateTable.of([scope], "t", SCHEMA, {}, adopt=False)).table
        insert = begin(inserts, Catalog(conf, pravega), table)
        for again, error in ((True, TransactionOutcomeUnknownError), (False, ServerUnavailableError)):
            with pytest.raises(error):
                Inserts().commit(Catalog(conf, nobody), table, InsertEnd(insert, [], again=again))
        for thread in inserts.abort_all():
            thread.join()


def _keeps_alive(insert: InsertHandle) -> bool:
    return any(insert.id in thread.name for thread in threading.enumerate())


def test_rows_without_a_routing_key_are_spread_evenly(spark: SparkSession, scope: str) -> None:
    table = f"pravega.`{scope}`.spread"
    spark.sql(f"CREATE TABLE {table} (id BIGINT) USING pravega TBLPROPERTIES ('scaling.min-segments'='4')")
    spark.range(0, 1002, numPartitions=2).writeTo(table).append()
    counts = sorted(row["count"] for row in spark.table(table).groupBy("_segment").count().collect())
    assert sum(counts) == 1002 and len(counts) == 4
    # A task divides its rows, here a single batch, into four runs.
    assert counts[-1] - counts[0] <= 2
