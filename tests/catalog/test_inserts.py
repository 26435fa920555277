"""The INSERTs of the service: none is kept alive that nobody can finish any more."""

from __future__ import annotations

import base64
import pickle
import threading
from collections.abc import Callable

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from pyspark_pravega.catalog.connections import Catalog
from pyspark_pravega.catalog.inserts import Inserts
from pyspark_pravega.catalog.replies import InsertHandle
from pyspark_pravega.catalog.tables import create
from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from tests.datasource.insert.test_atomicity import wait_until

SCHEMA = StructType([StructField("id", IntegerType())])


@pytest.mark.parametrize("service", [lambda inserts: inserts, lambda inserts: Inserts()], ids=["same", "another"])
def test_a_commit_that_fails_by_a_defect_leaves_the_rest_to_the_lease(
    client_config: ClientConfig, scope: str, service: Callable[[Inserts], Inserts]
) -> None:
    """The driver does not abort after it has asked for the commit."""
    conf = {"controller-uri": client_config.controller_uri, "schema-registry-uri": str(client_config.registry_uri)}
    with connect(client_config) as pravega:
        catalog, inserts = Catalog(conf, pravega), Inserts()
        table = create(catalog, [scope], "t", SCHEMA, [], {}, adopt=False).table
        insert = inserts.begin(1, catalog, table, SCHEMA, 1, {}).insert
        finishing = service(inserts)
        with pytest.raises(pickle.UnpicklingError):
            finishing.commit(catalog, table, insert, [base64.b64encode(b"junk").decode()], again=False)
        if finishing is not inserts:
            inserts.abort(catalog, table, insert)
        wait_until(lambda: not _keeps_alive(insert), "the end of the keep-alive")


def _keeps_alive(insert: InsertHandle) -> bool:
    return any(insert.transaction in thread.name for thread in threading.enumerate())
