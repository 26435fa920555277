"""DELETE, UPDATE and MERGE of tables whose rows are told by keys."""

from __future__ import annotations

from pyspark_pravega.datasource.kinds.dispatch import kind_of
from pyspark_pravega.datasource.spark_functions import PYTHON, pickled_write

from .connections import Catalog
from .naming import errors_about
from .replies import RowChangesBegun
from .requests import BeginRowChanges
from .spelling import subject


def begin(catalog: Catalog, request: BeginRowChanges) -> RowChangesBegun:
    """Return the function of the tasks that change rows. Raises UnsupportedOperationError, InvalidOptionError."""
    table = request.table
    with errors_about("Table", subject(catalog, table)):
        options = catalog.options(write=request.options)
        writer = kind_of(table).row_changes_writer(catalog.pravega, table, request.schema, options)
    return RowChangesBegun(pickled_write(writer), PYTHON)
