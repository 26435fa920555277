"""Checks the constraints of CREATE TABLE. Only tables of changes take one, a primary key, which tells their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark_pravega.datasource.kinds.dispatch import kind_with_format
from pyspark_pravega.errors import InvalidOptionError, UnsupportedOperationError, shorten
from pyspark_pravega.sql import options as o

from .requests import Constraint


def with_primary_key(
    table: str, properties: Mapping[str, str], format: str, constraints: Sequence[Constraint]
) -> dict[str, str]:
    """Return a table's properties with the primary key of its constraints.

    Raises UnsupportedOperationError for a constraint that no stream keeps, and InvalidOptionError for a primary key
    beside another one.
    """
    found = dict(properties)
    for each in constraints:
        if each.kind != "PrimaryKey" or each.enforced:
            raise UnsupportedOperationError(
                f"{each.text} is not possible on {table}: nothing checks the events that are written to a stream. "
                "Leave it out."
            )
        if not kind_with_format(format).rows_have_keys:
            raise UnsupportedOperationError(
                f"{each.text} is not possible on {table} with 'format'='{format}': every event is a row of its own. "
                "A primary key tells the rows of a table of changes, such as one of 'format'='debezium-json'. Leave it "
                "out."
            )
        key = ",".join(each.columns)
        given = found.setdefault(o.PRIMARY_KEY.key, key)
        if tuple(name.strip() for name in given.split(",")) != each.columns:
            raise InvalidOptionError(
                f"'{o.PRIMARY_KEY.key}'='{shorten(given)}' and {each.text} are two primary keys. Leave one of them out."
            )
    return found
