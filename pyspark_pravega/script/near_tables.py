"""What a mistyped name of a table or namespace in a script was meant to be, where the error does not say."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.adapter import CATALOG_CLASS
from pyspark_pravega.catalog_conf import PREFIX
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.sql.identifiers import did_you_mean, nearest, parts_of, quote_all

from .streaming_insert import full_name

_NAMED_BY = {"TABLE_OR_VIEW_NOT_FOUND": "relationName", "SCHEMA_NOT_FOUND": "schemaName"}
"""Conditions of errors about what is not there, and the parameter with its name."""


def near_table(spark: SparkSession, error: Exception) -> str:
    """Return the question whether another name was meant, empty for other errors and where no name is near.

    Errors about tables of Pravega have it already, if the session was begun with the adapter's jar.
    """
    if "Did you mean" in str(error):
        return ""
    if not isinstance(error, PySparkException) or (condition := error.getCondition()) not in _NAMED_BY:
        return ""
    name = (error.getMessageParameters() or {}).get(_NAMED_BY[condition], "")
    try:
        parts = parts_of(name)
        if condition == "SCHEMA_NOT_FOUND":
            near = next(filter(None, (_near_namespace(spark, each) for each in _in_catalogs(spark, parts))), None)
        else:
            near = _near_table(spark, full_name(spark, parts))
    except (PySparkException, PravegaError):
        return ""  # such as a catalog that cannot list its tables
    return f"\n{did_you_mean(near).strip()}" if near is not None else ""


def _in_catalogs(spark: SparkSession, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the names that a namespace may have, with a catalog: errors of our catalogs leave their name out."""
    if len(namespace) > 1:
        return [namespace]
    confs = spark.conf.getAll.items()
    return [(key.removeprefix(PREFIX), *namespace) for key, text in confs if text == CATALOG_CLASS]


def _near_table(spark: SparkSession, parts: tuple[str, ...]) -> str | None:
    *namespace, table = parts
    try:
        listed = spark.sql(f"SHOW TABLES IN {quote_all(namespace)}").collect()
    except PySparkException as error:
        if error.getCondition() != "SCHEMA_NOT_FOUND":
            raise
        return _near_namespace(spark, tuple(namespace))
    near = nearest(table, (row["tableName"] for row in listed))
    return None if near is None else quote_all((*namespace, near))


def _near_namespace(spark: SparkSession, parts: tuple[str, ...]) -> str | None:
    if len(parts) < 2:
        return None
    *above, last = parts
    listed = spark.sql(f"SHOW NAMESPACES IN {quote_all(above)}").collect()
    near = nearest(last, (parts_of(row[0])[-1] for row in listed))
    return None if near is None else quote_all((*above, near))
