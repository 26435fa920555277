"""Tables for queries that are generated, in Pravega and as Parquet: what all of them have, and those of good events."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from tests.catalog.queries.generated_columns import Column, columns, source

ROWS = 160
BIG = 1500
"""Characters of a text that makes a task for each segment of a few rows: small segments share one."""
SWITCHES = ("push-down-filters", "push-down-aggregates", "columnar-reads")
POSITIONS = "_segment _offset _event_pointer"
PLAIN = "id k y h i l w f d e t u b dt da at ta n tn p q z x a s m"
APART = "id k y h i l d e t b dt at n p x a s"
KEYED = "id k i t b dt at p d"


@dataclass(frozen=True)
class Table:
    """What queries ask: an expression of FROM for each way to read it, and its columns.

    `ways` are those of WAYS, "Parquet", and "kept" for the same rows in memory; the table whose bad events fail a query
    has neither.
    """

    name: str
    columns: tuple[Column, ...]
    hidden: tuple[Column, ...]
    ways: Mapping[str, str]
    sequential: bool
    """One task reads all rows in the order of the Parquet copy, so that sums have the same roundings."""
    weight: int
    key: Column | None = None
    """The routing key of all events, with values that some events have."""
    order: tuple[str, ...] = ("_offset", "_segment")
    """Columns of which no two rows have the same values."""


_ON = dict.fromkeys(SWITCHES, "true")


def _off(*switches: str) -> dict[str, str]:
    return dict.fromkeys(switches, "false")


WAYS: Mapping[str, Mapping[str, str]] = {
    "pushed": {},
    "not pushed": _off(*SWITCHES),
    "rows": _off("columnar-reads"),
    "columns": _off("push-down-filters", "push-down-aggregates"),
}
"""The ways to read a table of Pravega, by options."""


def with_options(options: Mapping[str, str]) -> str:
    """Options of a read in SQL."""
    return f" WITH ({', '.join(f'{key!r}={value!r}' for key, value in options.items())})" if options else ""


def ways_of(read: str, options: Mapping[str, str] | None = None) -> dict[str, str]:
    """The ways to read a table, with more options in each of them."""
    return {way: f"{read}{with_options({**(options or {}), **switches})}" for way, switches in WAYS.items()}


class Maker:
    """Makes tables in a namespace, and their Parquet copies in a directory."""

    def __init__(self, spark: SparkSession, namespace: str, directory: Path, config: ClientConfig) -> None:
        self.spark, self.namespace, self._directory, self.config = spark, namespace, directory, config
        self.made: list[Table] = []

    def name(self, name: str) -> str:
        """A table's name in SQL."""
        return f"pravega.`{self.namespace}`.{name}"

    def add(
        self,
        name: str,
        columns: tuple[Column, ...],
        ways: Mapping[str, str],
        weight: int,
        sequential: bool,
        hidden: str = POSITIONS,
        key: Column | None = None,
    ) -> Table:
        """Copy what is read without push-down into Parquet, in its order."""
        path = self._directory / name
        asked = [column.name for column in columns] + hidden.split()
        plain = self.spark.sql(f"SELECT {', '.join(asked)} FROM {ways['not pushed']}")
        plain.coalesce(1).write.parquet(str(path))
        copy = self.spark.read.parquet(str(path))
        copies = {"Parquet": f"equal_{self.namespace}_{name}", "kept": f"equal_{self.namespace}_{name}_kept"}
        copy.createGlobalTempView(copies["Parquet"])
        self._in_memory(copy).createGlobalTempView(copies["kept"])
        ways = {**ways, **{way: f"global_temp.{view}" for way, view in copies.items()}}
        found = tuple(self.valued(ways["kept"], column) for column in hidden.split())
        self.made.append(Table(name, columns, found, ways, sequential, weight, key))
        return self.made[-1]

    def _in_memory(self, copy: DataFrame) -> DataFrame:
        """The rows as a part of the plan, which takes least to ask."""
        rows = self.spark._jsparkSession.createDataFrame(copy._jdf.collectAsList(), copy._jdf.schema())
        return DataFrame(rows, self.spark)

    def valued(self, view: str, name: str) -> Column:
        """A column with some of its values in a view, and some that it does not have."""
        type = self.spark.table(view).schema[name].dataType.simpleString()
        shown = f"hex({name})" if type == "binary" else f"CAST({name} AS STRING)"
        rows = self.spark.sql(f"SELECT {shown} FROM {view} GROUP BY {name} ORDER BY hash(1, {name}) LIMIT 6").collect()
        values = [row[0] for row in rows if row[0] is not None]
        if type in ("bigint", "int"):
            other = ["-1L", "0L", "9223372036854775807L", *(f"{int(value) + 1}L" for value in values[:1])]
            return Column(name, type, (*(f"{value}L" for value in values), *other))
        if type == "binary":
            return Column(name, type, (*(f"X'{value}'" for value in values), "X''"))
        if type == "timestamp":
            return Column(name, "TIMESTAMP", (*(f"TIMESTAMP'{value}'" for value in values), "TIMESTAMP'2020-01-01'"))
        return Column(name, type, (*(_text(value) for value in values), "''", "'zz'"))

    def scale(self, name: str, sealed: Sequence[int], ranges: Sequence[tuple[float, float]]) -> None:
        """Replace segments of a table's stream by others."""
        with connect(self.config) as pravega:
            pravega.controller.scale_stream(Stream(self.namespace, name), sealed, ranges)


Kind: TypeAlias = Callable[[Maker], None]


def plain(maker: Maker) -> None:
    """One segment, which one task reads."""
    some, name = columns(PLAIN), maker.name("plain")
    maker.spark.sql(
        f"CREATE TABLE {name} USING pravega TBLPROPERTIES ('format'='avro') "
        f"AS {source(some, f'range(0, {ROWS}, 1, 1)')}"
    )
    maker.add("plain", some, ways_of(name), 50, sequential=True)


def apart(maker: Maker) -> None:
    """Several segments, each with a task of its own."""
    some, name = columns(APART), maker.name("apart")
    maker.spark.sql(
        f"CREATE TABLE {name} USING pravega "
        "TBLPROPERTIES ('format'='avro', 'routing-key'='id', 'scaling.min-segments'='2') "
        f"AS SELECT *, repeat('z', {2 * BIG}) AS big FROM ({source(some, f'range(0, {ROWS}, 1, 1)')})"
    )
    assert maker.spark.table(name).rdd.getNumPartitions() == 2
    maker.add("apart", some, ways_of(name), 16, sequential=False)


def keyed(maker: Maker) -> None:
    """Segments of two epochs, of which conditions on the key leave some out."""
    some, name = columns(KEYED), maker.name("keyed")
    named = ", ".join("coalesce(k, 7) AS k" if column.name == "k" else column.name for column in some)
    for number in range(2):
        rows = source(some, f"range({ROWS // 2} * {number}, {ROWS // 2} * {number + 1}, 1, 1)")
        if number == 0:
            maker.spark.sql(
                f"CREATE TABLE {name} USING pravega TBLPROPERTIES ('routing-key'='k', 'scaling.min-segments'='4') "
                f"AS SELECT {named} FROM ({rows})"
            )
            maker.scale("keyed", [1, 2], [(0.25, 0.4), (0.4, 0.5), (0.5, 0.75)])
        else:
            maker.spark.sql(f"INSERT INTO {name} SELECT {named} FROM ({rows})")
    key = Column("k", "INT", ("0", "1", "2", "3", "7", "8"))
    maker.add("keyed", some, ways_of(name), 10, sequential=False, key=key)


def sparse(maker: Maker) -> None:
    """Segments of which most are empty: there are few keys, which are texts."""
    some, name = columns(KEYED), maker.name("sparse")
    named = ", ".join(
        "element_at(array('a', 'A', 'ż', '😀', 'a '), int(id % 5) + 1) AS t" if column.name == "t" else column.name
        for column in some
    )
    maker.spark.sql(
        f"CREATE TABLE {name} USING pravega TBLPROPERTIES ('format'='avro', 'routing-key'='t', "
        f"'scaling.min-segments'='12') AS SELECT {named} FROM ({source(some, f'range(0, {ROWS}, 1, 1)')})"
    )
    key = Column("t", "STRING", ("'a'", "'A'", "'ż'", "'😀'", "'a '", "'b'", "''"))
    maker.add("sparse", some, ways_of(name), 6, sequential=False, key=key)


def empty(maker: Maker) -> None:
    """No events at all."""
    some, name = columns(KEYED), maker.name("empty")
    types = ", ".join(f"{column.name} {column.type}" for column in some)
    maker.spark.sql(f"CREATE TABLE {name} ({types}) USING pravega TBLPROPERTIES ('scaling.min-segments'='2')")
    maker.add("empty", some, ways_of(name), 2, sequential=False)


def several(maker: Maker) -> None:
    """The events of two streams."""
    some = columns(KEYED)
    for number in range(2):
        rows = source(some, f"range({ROWS // 2} * {number}, {ROWS // 2} * {number + 1}, 1, 1)")
        maker.spark.sql(f"CREATE TABLE {maker.name(f'part{number}')} USING pravega AS {rows}")
    reader = maker.spark.read.format("pravega")
    given = {"catalog": "pravega", "scope": maker.namespace, "streams": "part0,part1"}
    ways = {}
    for way, options in WAYS.items():
        view = f"equal_{maker.namespace}_several_{way.replace(' ', '_')}"
        reader.options(**{**_ON, **given, **options}).load().createOrReplaceGlobalTempView(view)
        ways[way] = f"global_temp.{view}"
    maker.add("several", some, ways, 4, sequential=False, hidden=f"{POSITIONS} _stream")


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


@contextmanager
def tables(spark: SparkSession, directory: Path, config: ClientConfig, *kinds: Kind) -> Iterator[list[Table]]:
    """Tables of some kinds for the length of a `with` block."""
    namespace = f"equal{uuid.uuid4().hex[:8]}"
    session = spark.newSession()
    # Of times that are further away than those of Java's older classes.
    session.conf.set("spark.sql.datetime.java8API.enabled", "true")
    session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    # With which small statements take least.
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.adaptive.enabled", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    session.sql(f"CREATE NAMESPACE pravega.`{namespace}`")
    maker = Maker(session, namespace, directory, config)
    for make in kinds:
        make(maker)
    yield maker.made
    for view in {view for table in maker.made for view in table.ways.values() if view.startswith("global_temp.")}:
        session.catalog.dropGlobalTempView(view.removeprefix("global_temp."))
    session.sql(f"DROP NAMESPACE pravega.`{namespace}` CASCADE")
