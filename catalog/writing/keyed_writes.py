"""Begins DELETE, UPDATE and MERGE by key. Their tasks write for themselves, so nothing stays open here."""

from __future__ import annotations

from pyspark_pravega.datasource.kinds.opening import open_table
from pyspark_pravega.datasource.spark_functions import PYTHON, pickle_write

from ..protocol import BeginKeyedWrite
from ..protocol.replies import KeyedWriteBegun
from ..storage.catalogs import Catalog
from ..storage.reporting import prefix_errors
from ..storage.spelling import name_table_and_stream


def begin_keyed_write(catalog: Catalog, request: BeginKeyedWrite) -> KeyedWriteBegun:
    """Begin a DELETE, UPDATE or MERGE by key: return its tasks' function.

    Raises UnsupportedOperationError, InvalidOptionError.
    """
    table = request.table
    with prefix_errors("Table", name_table_and_stream(catalog, table)):
        options = catalog.options(write=request.options)
        writer = open_table(catalog.pravega, table, options).keyed_writer(request.schema)
    return KeyedWriteBegun(pickle_write(writer), PYTHON)
