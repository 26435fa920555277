"""Recognize INSERT statements whose query reads a STREAM, and start them as streaming queries.

Spark parses and analyzes the whole INSERT, so columns are matched, cast, filled with defaults and refused as in any
other INSERT. But this module runs it instead of Spark, with the query of the analyzed plan. PySpark has no public way
to get a plan, so this calls into the JVM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_pravega.datasource.positions.bounds import has_end
from pyspark_pravega.errors import InvalidScriptError
from pyspark_pravega.script.checks import read_stream_settings
from pyspark_pravega.sql.identifiers import quote_all
from pyspark_pravega.sql.options import (
    CHECKPOINT,
    OUTPUT_MODE,
    STREAM_NAME,
    TRIGGER_OF_BATCHES,
    Options,
)
from pyspark_pravega.sql.script import Statement

from .checks import FIRST_SPARK, NO_CHECKPOINT, OLDER_SPARK

_STREAMING = "pravega.streaming-statements"
"""The adapter refuses an INSERT that reads a stream unless this local property says that it is not run as a batch."""
_INSERT = "InsertIntoStatement"
_APPEND, _RELATION = "AppendData", "DataSourceV2Relation"
_INSERT_INTO_FILES = "InsertIntoHadoopFsRelationCommand"
_INSTEAD = (
    "only INSERT INTO table [WITH (options)] [(columns) | BY NAME] query can read a STREAM. Create the table first, "
    "and leave out OVERWRITE, REPLACE and PARTITION"
)


@dataclass(frozen=True)
class StreamingInsert:
    """An analyzed INSERT: the full name of its table, its write options and its rows, as the table's columns.

    `known_as`: the same name with a Pravega stream spelled as in Pravega, whatever the statement calls it.
    `into_files`: the table is one of Spark's own tables of files. `bounded`: all streams that are read have an end.
    """

    statement: Statement
    table: tuple[str, ...]
    known_as: tuple[str, ...]
    into_files: bool
    bounded: bool
    options: Mapping[str, str]
    rows: DataFrame


def parse(spark: SparkSession, statement: Statement) -> Any:
    """Parse a statement with Spark's parser; return the plan in the JVM."""
    session, jvm = spark._jsparkSession, spark._jvm
    assert jvm is not None
    # Variables such as ${name} are looked up in the active session.
    SparkSession._get_j_spark_session_class(jvm).setActiveSession(session)
    return jvm.io.github.pysparkpravega.Scripts.parse(session, statement.in_place())


def analyze_streaming_insert(spark: SparkSession, statement: Statement) -> StreamingInsert | None:
    """Analyze a statement; return None unless it is an INSERT with a query that reads a STREAM.

    Raises InvalidScriptError for an INSERT of another form that reads a STREAM.
    """
    if statement.words[0] not in ("INSERT", "WITH"):
        return None
    session, jvm = spark._jsparkSession, spark._jvm
    assert jvm is not None
    parsed = parse(spark, statement)
    insert = parsed.child() if _get_class_name(parsed) == "UnresolvedWith" else parsed
    if _get_class_name(insert) != _INSERT:
        return None
    if spark.version < FIRST_SPARK and jvm.io.github.pysparkpravega.Scripts.isStreaming(parsed):
        raise InvalidScriptError(OLDER_SPARK)
    skip = jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    context = spark.sparkContext
    context.setLocalProperty(_STREAMING, "true")
    try:
        analyzed = session.sessionState().executePlan(parsed, skip).analyzed()
    finally:
        context.setLocalProperty(_STREAMING, None)  # type: ignore[arg-type]
    if not analyzed.isStreaming():
        return None
    target = insert.table()
    special = insert.overwrite() or insert.replaceCriteriaOpt().isDefined() or not insert.partitionSpec().isEmpty()
    if special or _get_class_name(target) != "UnresolvedRelation":
        raise build_not_streaming_error()
    # Spark's own mark beside the options tells the catalog which privileges are needed.
    given = dict(target.options().asCaseSensitiveMap())
    options = {key: text for key, text in given.items() if not key.startswith("__")}
    rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, analyzed.query())
    name = target.multipartIdentifier()
    parts = tuple(str(name.apply(number)) for number in range(name.size()))
    table = complete_name(spark, parts)
    into_files = _get_class_name(analyzed) == _INSERT_INTO_FILES
    reads = jvm.io.github.pysparkpravega.Scripts.optionsOfStreams(analyzed)
    return StreamingInsert(
        statement,
        table,
        known_as=_find_known_name(table, analyzed),
        into_files=into_files,
        bounded=all(has_end(dict(read)) for read in reads),
        options=options,
        rows=DataFrame(rows, spark),
    )


def start(insert: StreamingInsert, settings: Options) -> StreamingQuery:
    """Start the streaming query of an INSERT with the current settings."""
    name = choose_name(insert, settings)
    root = settings.get(CHECKPOINT)
    if root is None:
        raise InvalidScriptError(NO_CHECKPOINT)
    writer = insert.rows.writeStream.queryName(name).outputMode(settings.get(OUTPUT_MODE)).options(**insert.options)
    writer = writer.option("checkpointLocation", f"{root.rstrip('/')}/{quote(name, safe='$')}")
    match settings.get(TRIGGER_OF_BATCHES):
        case "once":
            writer = writer.trigger(once=True)
        case trigger if insert.bounded or trigger == "available now":
            writer = writer.trigger(availableNow=True)
        case timedelta() as interval:
            writer = writer.trigger(processingTime=f"{interval // timedelta(milliseconds=1)} milliseconds")
        case _:
            pass
    return writer.toTable(quote_all(insert.table))


def choose_name(insert: StreamingInsert, settings: Options) -> str:
    """Return the name of a streaming statement."""
    return settings.get(STREAM_NAME) or ".".join(insert.known_as)


def can_end_by_itself(insert: StreamingInsert, settings: Options) -> bool:
    """Return whether a streaming statement with these settings ends."""
    return insert.bounded or isinstance(settings.get(TRIGGER_OF_BATCHES), str)


def read_session_settings(spark: SparkSession) -> Options:
    """Return the session's settings of streaming statements. Raises InvalidOptionError."""
    return read_stream_settings(spark.conf.getAll)


def build_not_streaming_error() -> InvalidScriptError:
    """Return the error for a statement that reads a STREAM and cannot be run."""
    return InvalidScriptError(f"{_INSTEAD}.")


def _get_class_name(plan: Any) -> str:
    return str(plan.getClass().getSimpleName())


def _find_known_name(table: tuple[str, ...], analyzed: Any) -> tuple[str, ...]:
    """Return the name of a statement's checkpoint, which does not depend on how the statement spells its table."""
    if _get_class_name(analyzed) != _APPEND or _get_class_name(analyzed.table()) != _RELATION:
        return table
    properties = analyzed.table().table().properties()
    if properties.get("provider") != "pravega" or properties.get("location") is None:
        return table
    return (table[0], *str(properties.get("location")).split("/", 1))


def complete_name(spark: SparkSession, parts: tuple[str, ...]) -> tuple[str, ...]:
    """Complete a table's name by the current catalog and namespace, as Spark does."""
    manager = spark._jsparkSession.sessionState().catalogManager()
    if len(parts) > 1 and manager.isCatalogRegistered(parts[0]):
        return parts
    catalog = spark.catalog.currentCatalog()
    namespace = manager.currentNamespace() if len(parts) == 1 else ()
    return (catalog, *(str(part) for part in namespace), *parts)
