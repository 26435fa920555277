"""Tables with values at the limits of their types, in Pravega and as Parquet, for queries that are generated."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from tests.catalog.test_bad_event_modes import BAD
from tests.datasource.scans import insert
from tests.datasource.transactions import raw_table

ROWS = 160
BIG = 1500
"""Characters of a text that makes a task for each segment of a few rows: small segments share one."""
SWITCHES = ("push-down-filters", "push-down-aggregates", "columnar-reads")


@dataclass(frozen=True)
class Column:
    """A column: its type, values that tell one meaning of an operation from another, and an expression for others."""

    name: str
    type: str
    values: tuple[str, ...]
    other: str = "NULL"

    def source(self, place: int) -> str:
        """An expression for the column of the row `id`: an eighth of the rows or so is null."""
        if not self.values:
            return f"CAST({self.other} AS {self.type}) AS {self.name}"
        some = ", ".join([*self.values, "NULL"])
        value = f"element_at(array({some}), int(pmod(hash(id, {place}), {len(self.values) + 1})) + 1)"
        return f"CAST(IF(hash(id, {place}, 1) % 3 = 0, {self.other}, {value}) AS {self.type}) AS {self.name}"


COLUMNS = (
    Column("id", "BIGINT", (), "id"),
    Column("k", "INT", ("0", "1", "2", "3")),
    Column("y", "TINYINT", ("0Y", "1Y", "-128Y", "127Y"), "hash(id, 21) % 100"),
    Column("h", "SMALLINT", ("0S", "7S", "-32768S", "32767S"), "hash(id, 22) % 10000"),
    Column("i", "INT", ("0", "-1", "7", "2147483647", "-2147483648"), "hash(id, 23)"),
    Column("l", "BIGINT", ("0L", "7L", "9223372036854775807L", "-9223372036854775807L - 1L"), "hash(id, 24)"),
    Column(
        "f",
        "FLOAT",
        ("float(0)", "float('-0.0')", "float('NaN')", "float('Infinity')", "float(0.1)", "float('1e-45')"),
        "hash(id, 25) / 3",
    ),
    Column(
        "d",
        "DOUBLE",
        ("0d", "-0.0d", "double('NaN')", "double('-Infinity')", "0.1d", "4.9e-324d", "1.7976931348623157e308d"),
        "hash(id, 26) / 7",
    ),
    Column("e", "DOUBLE", ("0.25d", "double('NaN')", "1e9d", "-0.5d"), "(hash(id, 27) % 1000) / 4"),
    Column(
        "t",
        "STRING",
        ("''", "'a'", "'A'", "'ab%'", "'ż'", "'\\uffff'", "'😀'", "'😀a'", "' a'", "'a '", "'\\u0000'", "'7'"),
        "concat(char(int(abs(hash(id, 28) % 300))), id)",
    ),
    Column("u", "STRING COLLATE UNICODE_CI", ("'a'", "'A'", "'ż'", "'Ż'", "'z'")),
    Column("b", "BOOLEAN", ("true", "false"), "id % 2 = 0"),
    Column(
        "dt",
        "DATE",
        ("DATE'1970-01-01'", "DATE'0001-01-01'", "DATE'9999-12-31'", "DATE'1969-12-31'", "DATE'1582-10-15'"),
        "date_add(DATE'2000-01-01', hash(id, 29) % 1000)",
    ),
    Column(
        "at",
        "TIMESTAMP",
        (
            "TIMESTAMP'1970-01-01 00:00:00Z'",
            "TIMESTAMP'0001-01-01 00:00:00Z'",
            "TIMESTAMP'9999-12-31 23:59:59.999999Z'",
            "TIMESTAMP'1969-12-31 23:59:59.999999Z'",
        ),
        "timestamp_micros(hash(id, 30) * 1003L)",
    ),
    Column(
        "n",
        "TIMESTAMP_NTZ",
        (
            "TIMESTAMP_NTZ'1970-01-01 00:00:00'",
            "TIMESTAMP_NTZ'1969-12-31 23:59:59.999999'",
            "TIMESTAMP_NTZ'0001-01-01 00:00:00'",
            "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'",
        ),
    ),
    Column("p", "DECIMAL(10, 2)", ("0.00BD", "1.10BD", "-99999999.99BD", "99999999.99BD"), "id * 1.1BD"),
    Column(
        "q",
        "DECIMAL(38, 6)",
        (
            "0BD",
            "99999999999999999999999999999999.999999BD",
            "-99999999999999999999999999999999.999999BD",
            "0.000001BD",
        ),
        "id * 1000.5BD",
    ),
    Column("x", "BINARY", ("X''", "X'00'", "X'FF'", "X'0001'", "X'F09F9880'"), "CAST(concat('b', id) AS BINARY)"),
    Column("a", "ARRAY<INT>", (), "IF(id % 3 = 0, NULL, array(int(id), NULL, hash(id, 31)))"),
    Column(
        "s",
        "STRUCT<x: INT, y: STRING>",
        (),
        "IF(id % 4 = 0, NULL, named_struct('x', IF(id % 5 = 0, NULL, int(id % 7)), 'y', concat('y', id % 3)))",
    ),
    Column("m", "MAP<STRING, BIGINT>", (), "IF(id % 6 = 0, NULL, map(concat('k', id % 3), id, 'o', NULL))"),
)
PLAIN = "id k y h i l f d e t u b dt at n p q x a s m"
APART = "id k y h i l d e t b dt at n p x a s"
JSON = "id k i l d t b dt at p x a s"
CURRENT = "id k i t b dt at p"
KEYED = "id k i t b dt at p d"
_BY_NAME = {column.name: column for column in COLUMNS}


@dataclass(frozen=True)
class Table:
    """What queries ask: an expression of FROM for each way to read it, and its columns.

    `ways` are "pushed", "not pushed" and the like, and "Parquet", but for the table whose bad events fail a query.
    """

    name: str
    columns: tuple[Column, ...]
    hidden: tuple[Column, ...]
    ways: Mapping[str, str]
    sequential: bool
    """One task reads all rows in the order of the Parquet copy, so that sums have the same roundings."""
    weight: int
    key: str | None = None
    """The routing key of all events."""


def _columns(names: str) -> tuple[Column, ...]:
    return tuple(_BY_NAME[name] for name in names.split())


def _source(columns: tuple[Column, ...], rows: str) -> str:
    return f"SELECT {', '.join(column.source(place) for place, column in enumerate(columns))} FROM {rows}"


def _with(options: Mapping[str, str]) -> str:
    return f" WITH ({', '.join(f'{key!r}={value!r}' for key, value in options.items())})" if options else ""


def _off(*switches: str) -> dict[str, str]:
    return dict.fromkeys(switches, "false")


_ON = dict.fromkeys(SWITCHES, "true")
WAYS = {
    "pushed": {},
    "not pushed": _off(*SWITCHES),
    "rows": _off("columnar-reads"),
    "columns": _off("push-down-filters", "push-down-aggregates"),
}
"""The ways to read a table of Pravega, by options."""


def _ways(read: str, options: Mapping[str, str] | None = None) -> dict[str, str]:
    return {way: f"{read}{_with({**(options or {}), **switches})}" for way, switches in WAYS.items()}


class Tables:
    """Makes the tables in a namespace, and their Parquet copies in a directory."""

    def __init__(self, spark: SparkSession, namespace: str, directory: Path, config: ClientConfig) -> None:
        self._spark, self._namespace, self._directory, self._config = spark, namespace, directory, config
        self._made: list[Table] = []

    def make(self) -> list[Table]:
        """All of them."""
        self._plain()
        self._apart()
        self._keyed()
        self._several()
        self._current()
        self._bad()
        return self._made

    def _name(self, name: str) -> str:
        return f"pravega.`{self._namespace}`.{name}"

    def _add(
        self,
        name: str,
        columns: tuple[Column, ...],
        ways: Mapping[str, str],
        weight: int,
        sequential: bool,
        hidden: str = "_segment _offset _event_pointer",
    ) -> None:
        """Copy what is read without push-down into Parquet, in its order."""
        path = self._directory / name
        asked = [column.name for column in columns] + hidden.split()
        plain = self._spark.sql(f"SELECT {', '.join(asked)} FROM {ways['not pushed']}")
        plain.coalesce(1).write.parquet(str(path))
        self._spark.read.parquet(str(path)).createGlobalTempView(f"equal_{name}")
        ways = {**ways, "Parquet": f"global_temp.equal_{name}"}
        found = tuple(self._hidden(f"global_temp.equal_{name}", column) for column in hidden.split())
        self._made.append(Table(name, columns, found, ways, sequential, weight))

    def _hidden(self, view: str, name: str) -> Column:
        """A hidden column, with some of its values and some that it does not have."""
        type = self._spark.table(view).schema[name].dataType.simpleString()
        rows = self._spark.sql(f"SELECT {name} FROM {view} GROUP BY 1 ORDER BY hash(1, {name}) LIMIT 6").collect()
        values = [row[0] for row in rows if row[0] is not None]
        if type == "bigint":
            other = ["-1L", "0L", "9223372036854775807L", *(f"{value + 1}L" for value in values[:1])]
            return Column(name, type, (*(f"{value}L" for value in values), *other))
        if type == "binary":
            return Column(name, type, (*(f"X'{value.hex()}'" for value in values), "X''"))
        return Column(name, type, (*(_text(value) for value in values), "''", "'zz'"))

    def _plain(self) -> None:
        """One segment, which one task reads."""
        columns = _columns(PLAIN)
        name = self._name("plain")
        self._spark.sql(
            f"CREATE TABLE {name} USING pravega TBLPROPERTIES ('format'='avro') "
            f"AS {_source(columns, f'range(0, {ROWS}, 1, 1)')}"
        )
        self._add("plain", columns, _ways(name), 50, sequential=True)

    def _apart(self) -> None:
        """Several segments, each with a task of its own."""
        columns = _columns(APART)
        name = self._name("apart")
        self._spark.sql(
            f"CREATE TABLE {name} USING pravega "
            "TBLPROPERTIES ('format'='avro', 'routing-key'='id', 'scaling.min-segments'='2') "
            f"AS SELECT *, repeat('z', {2 * BIG}) AS big FROM ({_source(columns, f'range(0, {ROWS}, 1, 1)')})"
        )
        assert self._spark.table(name).rdd.getNumPartitions() == 2
        self._add("apart", columns, _ways(name), 16, sequential=False)

    def _keyed(self) -> None:
        """Segments of which conditions on the key leave some out."""
        columns = _columns(KEYED)
        name, rows = self._name("keyed"), _source(columns, f"range(0, {ROWS}, 1, 1)")
        named = ", ".join("coalesce(k, 7) AS k" if column.name == "k" else column.name for column in columns)
        self._spark.sql(
            f"CREATE TABLE {name} USING pravega TBLPROPERTIES ('routing-key'='k', 'scaling.min-segments'='4') "
            f"AS SELECT {named} FROM ({rows})"
        )
        self._add("keyed", columns, _ways(name), 10, sequential=False)
        self._made[-1] = replace(self._made[-1], key="k")

    def _several(self) -> None:
        """The events of two streams."""
        columns = _columns(KEYED)
        for number in range(2):
            rows = _source(columns, f"range({ROWS // 2} * {number}, {ROWS // 2} * {number + 1}, 1, 1)")
            self._spark.sql(f"CREATE TABLE {self._name(f'part{number}')} USING pravega AS {rows}")
        reader = self._spark.read.format("pravega")
        given = {"catalog": "pravega", "scope": self._namespace, "streams": "part0,part1"}
        ways = {}
        for way, options in WAYS.items():
            view = f"equal_several_{way.replace(' ', '_')}"
            reader.options(**{**_ON, **given, **options}).load().createOrReplaceGlobalTempView(view)
            ways[way] = f"global_temp.{view}"
        self._add("several", columns, ways, 4, sequential=False, hidden="_segment _offset _event_pointer _stream")

    def _current(self) -> None:
        """The rows that changes lead to, half of them made of two."""
        columns = _columns(CURRENT)
        name = self._name("current")
        types = ", ".join(f"{column.name} {column.type}" for column in columns)
        self._spark.sql(f"CREATE TABLE {name} ({types}) TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')")
        for first, rows in ((7, f"range({ROWS})"), (0, f"range({ROWS // 2})")):
            moved = ", ".join(column.source(first + place) for place, column in enumerate(columns))
            self._spark.sql(f"INSERT INTO {name} SELECT {moved} FROM {rows}")
        self._add("current", columns, _ways(name), 5, sequential=False)

    def _bad(self) -> None:
        """JSON without framing, every twentieth event of which is none of the table."""
        columns = _columns(JSON)
        stream, name = Stream(self._namespace, "bad"), self._name("bad")
        types = ", ".join(f"{column.name} {column.type}" for column in columns)
        self._spark.sql(f"CREATE TABLE {name} ({types}) TBLPROPERTIES ('format'='json', 'framing'='none')")
        good = _source(columns, f"range({ROWS // 4} * {{}}, {ROWS // 4} * ({{}} + 1), 1, 1)")
        json = good.replace("double('NaN')", "1.5d").replace("double('-Infinity')", "-2.5d")
        bad = pa.record_batch([pa.array([*BAD, b'{"id":"x"}', b'{"i":2147483648}'], pa.binary())], names=["event"])
        for part in range(4):
            self._spark.sql(f"INSERT INTO {name} {json.format(part, part)}")
            if part < 3:
                with connect(self._config) as pravega:
                    insert(pravega, raw_table(stream), bad)
        modes = {
            "permissive": ({"mode": "permissive"}, 12, "_segment _offset _event_pointer _error _raw"),
            "dropped": ({"mode": "dropmalformed"}, 8, "_segment _offset _event_pointer"),
            "lettered": ({"dead-letter": "letters"}, 2, "_segment _offset _event_pointer"),
        }
        for mode, (options, weight, hidden) in modes.items():
            self._add(mode, columns, _ways(name, options), weight, sequential=True, hidden=hidden)
        dropped = self._made[-1]
        ways = {"pushed": name, "not pushed": f"{name}{_with(_off(*SWITCHES))}"}
        self._made.append(replace(dropped, name="failfast", hidden=(), ways=ways, weight=0))


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


@contextmanager
def tables(spark: SparkSession, directory: Path, config: ClientConfig) -> Iterator[list[Table]]:
    """The tables for the length of a `with` block."""
    namespace = f"equal{uuid.uuid4().hex[:8]}"
    spark.sql(f"CREATE NAMESPACE pravega.`{namespace}`")
    made = Tables(spark, namespace, directory, config).make()
    yield made
    for view in (view for table in made for view in table.ways.values() if view.startswith("global_temp.")):
        spark.catalog.dropGlobalTempView(view.removeprefix("global_temp."))
    spark.sql(f"DROP NAMESPACE pravega.`{namespace}` CASCADE")
