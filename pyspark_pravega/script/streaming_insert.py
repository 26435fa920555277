"""Recognize INSERT statements whose query reads a STREAM, and start them as streaming queries.

The adapter's StreamingInsert has Spark analyze the whole INSERT, and starts it. Scripts add settings and refusals here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_pravega.datasource.positions.bounds import has_end
from pyspark_pravega.errors import InvalidScriptError
from pyspark_pravega.sql import options as o
from pyspark_pravega.sql.script import Statement

from .checks import FIRST_SPARK, NO_CHECKPOINT, OLDER_SPARK

_APPEND, _RELATION = "AppendData", "DataSourceV2Relation"
_INSERT_INTO_FILES = "InsertIntoHadoopFsRelationCommand"


@dataclass(frozen=True)
class StreamingInsert:
    """An INSERT that the adapter has analyzed, and the full name of its table.

    `known_as`: the same name with a Pravega stream spelled as in Pravega, whatever the statement calls it.
    `into_files`: the table is one of Spark's own tables of files. `bounded`: all streams that are read have an end.
    """

    statement: Statement
    table: tuple[str, ...]
    known_as: tuple[str, ...]
    into_files: bool
    bounded: bool
    analyzed: Any


def _adapter(spark: SparkSession) -> Any:
    assert spark._jvm is not None
    return spark._jvm.io.github.pysparkpravega


def parse(spark: SparkSession, statement: Statement) -> Any:
    """Parse a statement with Spark's parser; return the plan in the JVM."""
    return _adapter(spark).Scripts.parse(spark._jsparkSession, statement.in_place())


def analyze_streaming_insert(spark: SparkSession, statement: Statement) -> StreamingInsert | None:
    """Analyze a statement; return None unless it is an INSERT with a query that reads a STREAM.

    Raises InvalidScriptError for an INSERT of another form that reads a STREAM.
    """
    if statement.words[0] not in ("INSERT", "WITH"):
        return None
    adapter = _adapter(spark)
    if spark.version < FIRST_SPARK:
        parsed = parse(spark, statement)
        if adapter.Scripts.findInsert(parsed) is not None and adapter.Scripts.isStreaming(parsed):
            raise InvalidScriptError(OLDER_SPARK)
        return None
    insert = adapter.StreamingInsert.analyze(spark._jsparkSession, statement.in_place())
    if insert is None:
        return None
    parsed, analyzed = insert.parsed(), insert.analyzed()
    special = parsed.overwrite() or parsed.replaceCriteriaOpt().isDefined() or not parsed.partitionSpec().isEmpty()
    if special or _get_class_name(parsed.table()) != "UnresolvedRelation":
        raise build_not_streaming_error()
    name = parsed.table().multipartIdentifier()
    table = complete_name(spark, tuple(str(name.apply(number)) for number in range(name.size())))
    reads = adapter.Scripts.optionsOfStreams(insert.query())
    return StreamingInsert(
        statement,
        table,
        known_as=_find_known_name(table, analyzed),
        into_files=_get_class_name(analyzed) == _INSERT_INTO_FILES,
        bounded=all(has_end(dict(read)) for read in reads),
        analyzed=insert,
    )


def start(spark: SparkSession, insert: StreamingInsert, settings: o.Options) -> StreamingQuery:
    """Start the streaming query of an INSERT with the current settings."""
    name = choose_name(insert, settings)
    root = settings.get(o.CHECKPOINT)
    if root is None:
        raise InvalidScriptError(NO_CHECKPOINT)
    assert spark._jvm is not None
    triggers = spark._jvm.org.apache.spark.sql.streaming.Trigger
    match settings.get(o.TRIGGER_OF_BATCHES):
        case "once":
            trigger = triggers.Once()
        case timedelta() as interval if not insert.bounded:
            trigger = triggers.ProcessingTime(interval // timedelta(milliseconds=1))
        case given:
            trigger = triggers.AvailableNow() if insert.bounded or given else triggers.ProcessingTime(0)
    checkpoint = f"{root.rstrip('/')}/{quote(name, safe='$')}"
    return StreamingQuery(insert.analyzed.start(name, settings.get(o.OUTPUT_MODE), checkpoint, trigger, {}))


def choose_name(insert: StreamingInsert, settings: o.Options) -> str:
    return settings.get(o.STREAM_NAME) or ".".join(insert.known_as)


def can_end_by_itself(insert: StreamingInsert, settings: o.Options) -> bool:
    return insert.bounded or isinstance(settings.get(o.TRIGGER_OF_BATCHES), str)


def build_not_streaming_error() -> InvalidScriptError:
    """Return the error for a statement that reads a STREAM and cannot be run."""
    return InvalidScriptError(
        "only INSERT INTO table [WITH (options)] [(columns) | BY NAME] query can read a STREAM. Create the table "
        "first, and leave out OVERWRITE, REPLACE and PARTITION."
    )


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
