"""Find missing tables that a script names, and suggest names for mistyped ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sqlglot import Token, TokenType, tokenize

from pyspark_pravega.catalog import connect
from pyspark_pravega.errors import PravegaError, StreamNotFoundError
from pyspark_pravega.spark.catalog_conf import PREFIX
from pyspark_pravega.spark.home import CATALOG_CLASS
from pyspark_pravega.sql.identifiers import ask_did_you_mean, find_nearest, hyphenate, quote_all, split_name
from pyspark_pravega.sql.script import Statement

from .streaming_insert import complete_name

_BEFORE_A_NAME = frozenset("FROM JOIN INTO STREAM OVERWRITE TABLE UPDATE USING VIEW EXISTS".split())
"""Words before the name of a table."""
_MAKES = ("CREATE", "REPLACE")
_MAY_BE_MISSING = ("DROP",)
"""First words of statements that need no table: DROP itself says what is missing, or has IF EXISTS."""
_NAMED_BY = {"TABLE_OR_VIEW_NOT_FOUND": "relationName", "SCHEMA_NOT_FOUND": "schemaName"}
"""Conditions of errors about missing objects, and the parameter with the object's name."""


def find_missing_tables(
    script: Sequence[Statement], catalog: str, settings: Mapping[str, str]
) -> list[tuple[int, str]]:
    """Find the catalog's tables that are named in full, do not exist, and are not made by an earlier statement.

    Returns for each the line of the statement that needs it, and a sentence. `settings` are those of the catalog's
    conf. Raises the errors of servers that do not answer.
    """
    names = list(_find_wanted(script, catalog))
    if not names:
        return []
    missing = []
    with connect(catalog, **settings) as opened:
        for line, namespace, table in names:
            name = quote_all((catalog, namespace, table))
            if opened.table_exists(name):
                continue
            try:
                opened.load_table(name)
            except StreamNotFoundError as error:
                missing.append((line, error.for_user()))
            except PravegaError:
                continue  # a view, or a table that cannot be read: it exists
    return missing


def _find_wanted(script: Sequence[Statement], catalog: str) -> Iterator[tuple[int, str, str]]:
    created: set[tuple[str, str]] = set()
    for statement in script:
        first = statement.words[0]
        named = dict.fromkeys(_find_named(tokenize(statement.text, read="spark"), catalog))
        for number, (namespace, table) in enumerate(named):
            key = hyphenate(namespace), hyphenate(table)
            if first in _MAKES and number == 0:
                created.add(key)
            elif first not in _MAY_BE_MISSING and key not in created:
                created.add(key)  # report it once
                yield statement.line, namespace, table


def _find_named(tokens: Sequence[Token], catalog: str) -> Iterator[tuple[str, str]]:
    """Yield the namespaces and tables that follow the catalog's name where a statement names tables."""
    for number, token in enumerate(tokens[1:], 1):
        before = tokens[number - 1]
        if before.token_type is TokenType.L_PAREN and number > 1:
            before = tokens[number - 2]  # FROM STREAM(pravega.iot.sensor)
        if token.text.lower() != catalog.lower() or before.text.upper() not in _BEFORE_A_NAME:
            continue
        parts = tokens[number : number + 5]
        dots = [part.token_type for part in parts[1::2]]
        if len(parts) == 5 and dots == [TokenType.DOT, TokenType.DOT]:
            yield parts[2].text, parts[4].text


def suggest_near_name(spark: SparkSession, error: Exception) -> str:
    """Return the question whether another name was meant; empty for other errors and if no name is similar.

    Errors about Pravega tables already have it, if the session started with the adapter's jar.
    """
    if "Did you mean" in str(error):
        return ""
    if not isinstance(error, PySparkException) or (condition := error.getCondition()) not in _NAMED_BY:
        return ""
    name = (error.getMessageParameters() or {}).get(_NAMED_BY[condition], "")
    try:
        parts = split_name(name)
        if condition == "SCHEMA_NOT_FOUND":
            near = next(
                filter(None, (_find_near_namespace(spark, name) for name in _list_full_names(spark, parts))), None
            )
        else:
            near = _find_near_table(spark, complete_name(spark, parts))
    except (PySparkException, PravegaError):
        return ""  # such as a catalog that cannot list its tables
    return f"\n{ask_did_you_mean(near).strip()}" if near is not None else ""


def _list_full_names(spark: SparkSession, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the names that a namespace may have with a catalog, because errors of our catalogs leave theirs out."""
    if len(namespace) > 1:
        return [namespace]
    confs = spark.conf.getAll.items()
    return [(key.removeprefix(PREFIX), *namespace) for key, text in confs if text == CATALOG_CLASS]


def _find_near_table(spark: SparkSession, parts: tuple[str, ...]) -> str | None:
    *namespace, table = parts
    try:
        listed = spark.sql(f"SHOW TABLES IN {quote_all(namespace)}").collect()
    except PySparkException as error:
        if error.getCondition() != "SCHEMA_NOT_FOUND":
            raise
        return _find_near_namespace(spark, tuple(namespace))
    near = find_nearest(table, (row["tableName"] for row in listed))
    return None if near is None else quote_all((*namespace, near))


def _find_near_namespace(spark: SparkSession, parts: tuple[str, ...]) -> str | None:
    if len(parts) < 2:
        return None
    *above, last = parts
    listed = spark.sql(f"SHOW NAMESPACES IN {quote_all(above)}").collect()
    near = find_nearest(last, (split_name(row[0])[-1] for row in listed))
    return None if near is None else quote_all((*above, near))
