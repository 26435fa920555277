"""The columns of the changes of a table."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import StructField, StructType

from pyspark_pravega.errors import InvalidSchemaError

from .hidden_columns import CHANGE_COLUMNS


def changes_schema(table: StructType, key: Sequence[str]) -> StructType:
    """Return the columns of a table followed by CHANGE_COLUMNS. `key` are the columns that tell its rows, if any.

    Raises InvalidSchemaError when a column of the table has the name of one of CHANGE_COLUMNS.
    """
    taken = [name for name in table.names if name.lower() in CHANGE_COLUMNS.names]
    if taken:
        raise InvalidSchemaError(
            f"It has the column {', '.join(taken)}, whose name CHANGES gives to another. Read the table itself."
        )
    columns = [StructField(f.name, f.dataType, f.nullable and f.name not in key, f.metadata) for f in table]
    return StructType([*columns, *CHANGE_COLUMNS.fields])
