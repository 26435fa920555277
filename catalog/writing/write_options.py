"""Tells the options of a streaming query's writes from those that count only when its table is made."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_pravega.datasource.kinds.opening import find_table_kind
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.options import SettableAs, find_option

_FIXED = (o.FORMAT, o.FRAMING)
"""Options that are fixed for a table, though a write without a catalog may name them."""


def select_write_options(table: StreamTable, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a streaming query without those that count only when toTable makes the table.

    Raises InvalidOptionError for a format or framing other than the table's, and for options that name single writes.
    """
    left = {}
    for key, text in options.items():
        option = find_option(key)
        if option in (o.TXN_APP_ID, o.TXN_VERSION):
            raise InvalidOptionError(
                f"'{key}' is for batches that are written in foreachBatch. A query that writes into a table is "
                "identified by its own id, and writes each of its micro-batches once. Leave it out."
            )
        if option in _FIXED:
            has = find_table_kind(table).format_of(table) if option is o.FORMAT else table.framing
            if text.strip().lower() != has:
                raise InvalidOptionError(
                    f"'{key}'='{text}' does not fit: the table exists, and has '{has}'. Leave the option out, "
                    "or write into another table."
                )
        elif option is None or SettableAs.PROPERTY not in option.allowed or SettableAs.WRITE in option.allowed:
            left[key] = text
    return left
