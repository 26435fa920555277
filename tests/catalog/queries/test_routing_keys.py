"""Tables all of whose events have one routing key: less is read, and what would break the promise is refused."""

from __future__ import annotations

import random
import re
from itertools import cycle
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.queries.test_aggregates import plan
from tests.catalog.streaming.changes_streams import scale
from tests.interop.foreign import Foreign
from tests.streams import run_available

PROMISE = "routing-key.of-all-events"
EPOCHS = 3
KEYS = {
    "BIGINT": ["0L", "-1L", "7L", "9223372036854775807L", "-9223372036854775807L - 1L"],
    "STRING": ["''", "'a'", "'A'", "'a '", "'ż'", "'😀'", "'\\u0000'", "'\\uffff'", "repeat('x', 1000)"],
    "DATE": ["DATE'1970-01-01'", "DATE'0001-01-01'", "DATE'9999-12-31'", "DATE'1582-10-04'"],
}
"""Types of keys, with some values."""
UNTOLD = {
    "DECIMAL(5, 2)": ["1.10BD", "1.1BD"],
    "STRING COLLATE UTF8_LCASE": ["'a'", "'A'"],
    "BOOLEAN": ["true", "false"],
}
"""Types of which equal values may have different texts, and one that has not enough of them."""


def addresses(cluster: ClusterInfo) -> dict[str, str]:
    """The options by which `format("pravega")` finds the servers."""
    return {"controller-uri": cluster.controller_uri, "schema-registry-uri": str(cluster.registry_uri)}


def promised(spark: SparkSession, table: str) -> str | None:
    found = spark.sql(f"SHOW TBLPROPERTIES {table}").collect()
    return {row.key: row.value for row in found}.get(PROMISE)


def create(spark: SparkSession, scope: str, columns: str, more: str = "", name: str = "t") -> str:
    table = f"pravega.`{scope}`.`{name}`"
    properties = f"'format'='json', 'routing-key'='k', 'scaling.min-segments'='8'{more}"
    spark.sql(f"CREATE TABLE {table} ({columns}) TBLPROPERTIES ({properties})")
    return table


def ids(rows: DataFrame) -> list[int]:
    return sorted(row.id for row in rows.select("id").collect())


def segments(rows: DataFrame) -> tuple[int, int] | None:
    """How many segments a query is to read, of how many, if that is told."""
    found = re.search(r"; routing key: (\d+) of (\d+) segments", plan(rows))
    return None if found is None else (int(found[1]), int(found[2]))


def one_segment(rows: DataFrame) -> bool:
    """Tell whether a query is to read one segment of several."""
    found = segments(rows)
    return found is not None and found[0] == 1 < found[1]


def refused(spark: SparkSession, statement: str) -> str:
    with pytest.raises(PySparkException) as caught:
        spark.sql(statement)
    return str(caught.value)


@pytest.mark.parametrize(
    "type",
    [
        *("BIGINT", "STRING", "DECIMAL(5, 2)"),
        *(pytest.param(each, marks=pytest.mark.long) for each in ("DATE", "STRING COLLATE UTF8_LCASE", "BOOLEAN")),
    ],
)
def test_answers_are_those_of_a_scan_of_all_segments(
    spark: SparkSession, pravega: Pravega, scope: str, type: str
) -> None:
    values = (KEYS | UNTOLD)[type]
    table = create(spark, scope, f"id INT, k {type}")
    assert promised(spark, table) == "true"
    for epoch in range(EPOCHS):
        rows = ", ".join(f"({number}, {value})" for number, value in enumerate(values, epoch * len(values)))
        spark.sql(f"INSERT INTO {table} SELECT id, CAST(k AS {type}) FROM VALUES {rows} v(id, k)")
        scale(pravega, Stream(scope, "t"), epoch)
    texts = [
        form.format(value, values[0])
        for value, form in zip(
            values, cycle(("k = {}", "{} = k AND id >= 0", "k <=> {}", "k IN ({}, {})")), strict=False
        )
    ]
    chance = random.Random(type)
    for _ in range(3):
        one, two = chance.choices(values, k=2)
        texts.append(f"(k = {one} OR k = {two}) AND id % 2 = 0 OR k = {two} AND id > {chance.randrange(9)}")
    texts.append(f"k = {values[0]} AND k = {values[1]}")
    off = spark.read.option("push-down-routing-key", "false").table(table)
    wanted = off.selectExpr(
        "id", *(f"coalesce({text}, false) AS c{place}" for place, text in enumerate(texts))
    ).collect()
    for place, text in enumerate(texts):
        found = spark.table(table).where(text)
        these = ids(found)
        assert these == sorted(row.id for row in wanted if row[f"c{place}"]), text
        assert len(these) >= EPOCHS or place >= len(values), text
        few = segments(found)
        if type in UNTOLD:
            assert few is None, text
        elif place < len(values):
            assert few is not None and 0 < few[0] < few[1], text
    counted = spark.table(table).where(texts[-1]).groupBy().count()
    assert counted.collect() == [(sum(row[f"c{len(texts) - 1}"] for row in wanted),)]
    assert segments(off.where(texts[0])) is None


def test_all_segments_are_read_where_conditions_do_not_tell(spark: SparkSession, scope: str) -> None:
    table = create(spark, scope, "id INT, k STRING")
    spark.sql(f"INSERT INTO {table} SELECT id, concat('k', id % 20) FROM range(100)")
    for text in (
        "k <> 'k1'",
        "k > 'k1'",
        "k LIKE 'k1%'",
        "k = 'k1' OR id = 3",
        "NOT k = 'k1'",
        "k IS NULL",
        "upper(k) = 'K1'",
    ):
        assert segments(spark.table(table).where(text)) is None, text
    # What may fail for rows of other keys still does.
    for text, keyed in (("1 / id > 0 AND k = 'k1'", False), ("k = 'k1' AND 1 / id > 0", True)):
        assert (segments(spark.table(table).where(text)) is not None) == keyed
    off = spark.read.option("push-down-filters", "false").table(table)
    assert segments(off.where("k = 'k1'")) is None
    joined = spark.sql(f"SELECT a.id FROM {table} a JOIN {table} b ON a.id = b.id WHERE a.k = 'k3' AND b.id >= 0")
    assert ids(joined) == [3, 23, 43, 63, 83]
    some = spark.table(table).where("k = 'k3' AND _offset >= 0 AND _segment LIKE '%'")
    assert ids(some) == [3, 23, 43, 63, 83] and one_segment(some)


def test_who_makes_the_promise(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    table = create(spark, scope, "id INT, k STRING, other STRING")
    assert promised(spark, table) == "true"
    without = create(spark, scope, "id INT, k STRING", f", '{PROMISE}'='false'", name="without")
    assert promised(spark, without) == "false"
    spark.sql(f"CREATE TABLE pravega.`{scope}`.filled TBLPROPERTIES ('routing-key'='k') AS SELECT 1 AS id, 'a' AS k")
    assert promised(spark, f"pravega.`{scope}`.filled") == "true"
    spark.sql(f"CREATE TABLE pravega.`{scope}`.plain (id INT)")
    assert promised(spark, f"pravega.`{scope}`.plain") is None
    pravega.controller.create_stream(Stream(scope, "theirs"), StreamConfiguration(ScalingPolicy(min_segments=8)))
    adopted = f"pravega.`{scope}`.theirs"
    spark.sql(f"CREATE TABLE {adopted} (id INT, k STRING) TBLPROPERTIES ('format'='json', 'routing-key'='k')")
    assert promised(spark, adopted) == "false"
    for other in (without, adopted):
        spark.sql(f"INSERT INTO {other} SELECT id, chr(97 + id) FROM range(20)")
        found = spark.table(other).where("k = 'b'")
        assert segments(found) is None and ids(found) == [1]
        spark.sql(f"ALTER TABLE {other} SET TBLPROPERTIES ('{PROMISE}'='true')")
        assert promised(spark, other) == "true"
        found = spark.table(other).where("k = 'b'")
        assert one_segment(found) and ids(found) == [1]
    # It is about one key, and ends with that.
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('routing-key'='other')")
    assert promised(spark, table) == "false"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('routing-key'='k')")
    assert promised(spark, table) == "false"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('routing-key'='other', '{PROMISE}'='true')")
    assert promised(spark, table) == "true"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('retention.type'='time', 'retention.minimum'='7d')")
    assert promised(spark, table) == "true"
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('{PROMISE}')")
    assert promised(spark, table) == "false"
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('routing-key')")
    assert promised(spark, table) is None
    assert "needs 'routing-key'" in refused(spark, f"ALTER TABLE {table} SET TBLPROPERTIES ('{PROMISE}'='true')")
    changes = f"TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id', 'routing-key'='id', '{PROMISE}'='true')"
    assert "changes of rows" in refused(spark, f"CREATE TABLE pravega.`{scope}`.changes (id INT) {changes}")
    changes = changes.replace(f", '{PROMISE}'='true'", "")
    spark.sql(f"CREATE TABLE pravega.`{scope}`.changes (id INT, name STRING) {changes}")
    assert promised(spark, f"pravega.`{scope}`.changes") is None


def test_every_way_to_write_keeps_the_promise(
    spark: SparkSession, cluster: ClusterInfo, scope: str, tmp_path: Path
) -> None:
    table = create(spark, scope, "id INT, k STRING, other STRING")
    row = spark.sql("SELECT 1 AS id, 'a' AS k, 'b' AS other")
    options = {"scope": scope, "stream": "t"} | addresses(cluster)
    words = f"promises by '{PROMISE}'.*SET TBLPROPERTIES \\('{PROMISE}'='false'\\)"
    for mode in ("transactional", "at-least-once", "best-effort"):
        with pytest.raises(PySparkException, match=f"'routing-key'='other'.*{words}"):
            row.writeTo(table).option("routing-key", "other").option("write-mode", mode).append()
        writer = row.write.format("pravega").mode("append").options(**options).option("write-mode", mode)
        with pytest.raises(PySparkException, match=f"'routing-key'='other'.*{words}"):
            writer.option("routing-key", "other").save()
    with pytest.raises(PySparkException, match=words):
        spark.sql(f"INSERT INTO {table} WITH ('routing-key'='other') VALUES (1, 'a', 'b')")
    plain = row.write.format("pravega").mode("append").options(**options, format="json", framing="none")
    with pytest.raises(PySparkException, match=f"without a routing key.*{words}"):
        plain.save()
    with pytest.raises(PySparkException, match="Leave out 'format' and 'framing'"):
        plain.option("routing-key", "k").save()
    raw = spark.sql("SELECT X'00' AS event").write.format("pravega").mode("append").options(**options, format="raw")
    with pytest.raises(PySparkException, match=words):
        raw.save()
    source = f"pravega.`{scope}`.source"
    spark.sql(f"CREATE TABLE {source} AS SELECT 1 AS id, 'a' AS k, 'b' AS other")
    stream = spark.readStream.table(source).writeStream.format("pravega").options(**options)
    with pytest.raises(StreamingQueryException, match=words):
        run_available(stream.option("routing-key", "other"), tmp_path / "refused")
    assert spark.table(table).count() == 0

    spark.sql(f"INSERT INTO {table} WITH ('routing-key'='K') VALUES (1, 'a', 'b')")
    row.write.format("pravega").mode("append").options(**options).option("write-mode", "at-least-once").save()
    assert run_available(stream.option("routing-key", "k"), tmp_path / "taken")
    assert ids(spark.table(table).where("k = 'a'")) == [1, 1, 1]
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{PROMISE}'='false')")
    spark.sql(f"INSERT INTO {table} WITH ('routing-key'='other') SELECT id, 'a', concat(id) FROM range(2, 50)")
    assert ids(spark.table(table).where("k = 'a'")) == [1, 1, 1, *range(2, 50)]


@pytest.mark.parametrize("keys", [range(0, 10, 4), pytest.param(range(10), marks=pytest.mark.long)], ids=str)
def test_what_others_write(
    spark: SparkSession, foreign: Foreign, cluster: ClusterInfo, scope: str, keys: range
) -> None:
    """With the same keys to a table that promises that, and with keys of their own to one that does not."""
    java = foreign.connect(cluster)
    chance = random.Random(1)
    for kept in (True, False):
        name = f"kept-{kept}".lower()
        table = create(spark, scope, "id INT, k STRING", f", 'framing'='none', '{PROMISE}'='{kept}'", name)
        spark.sql(f"INSERT INTO {table} SELECT id, concat('ż', id % 10) FROM range(50)")
        events = [(f"ż{id % 10}", f'{{"id": {id}, "k": "ż{id % 10}"}}') for id in range(50, 100)]
        java.write_text(scope, name, [(key if kept else str(chance.random()), event) for key, event in events])
        for key in keys:
            found = spark.table(table).where(f"k = 'ż{key}'")
            assert ids(found) == list(range(key, 100, 10))
            assert (segments(found) is not None) == kept


@pytest.mark.parametrize("format", ["avro", pytest.param("json", marks=pytest.mark.long)])
def test_columns_that_change(spark: SparkSession, scope: str, format: str) -> None:
    table = f"pravega.`{scope}`.{format}"
    spark.sql(
        f"CREATE TABLE {table} (id INT, k TINYINT) "
        f"TBLPROPERTIES ('format'='{format}', 'routing-key'='k', 'scaling.min-segments'='8')"
    )
    spark.sql(f"INSERT INTO {table} SELECT id, id % 10 - 5 FROM range(50)")
    assert (
        "'routing-key' names 'k'" in refused(spark, f"ALTER TABLE {table} RENAME COLUMN k TO key") or format == "json"
    )
    for place, type in enumerate(("INT", "BIGINT"), 1):
        spark.sql(f"ALTER TABLE {table} ALTER COLUMN k TYPE {type}")
        spark.sql(f"INSERT INTO {table} SELECT id, id % 10 - 5 FROM range({50 * place}, {50 * place + 50})")
        found = spark.table(table).where("k = -3")
        assert ids(found) == list(range(2, 50 * place + 50, 10)) and one_segment(found)
    if format == "avro":
        spark.conf.set("spark.sql.caseSensitive", "true")
        try:
            spark.sql(f"ALTER TABLE {table} RENAME COLUMN k TO K")
        finally:
            spark.conf.unset("spark.sql.caseSensitive")
        found = spark.table(table).where("k = -3")
        assert ids(found) == list(range(2, 150, 10)) and one_segment(found)
        # The key that the table promises now is no column of an older version.
        spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('routing-key')")
        [version] = spark.sql(f"SELECT max(version) FROM {table}.schemas").first() or [None]
        spark.sql(f"ALTER TABLE {table} RENAME COLUMN K TO key")
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('routing-key'='key', 'routing-key.of-all-events'='true')")
        older = spark.sql(f"SELECT id FROM {table} WITH ('schema-version'='{version}') WHERE k = -3")
        assert sorted(row.id for row in older.collect()) == list(range(2, 150, 10))


def test_several_streams_as_one(spark: SparkSession, cluster: ClusterInfo, scope: str) -> None:
    for name, kept in (("a", "true"), ("b", "false"), ("c", "true")):
        table = create(spark, scope, "id INT, k STRING", f", '{PROMISE}'='{kept}'", name)
        spark.sql(f"INSERT INTO {table} SELECT id, concat('k', id % 10) FROM range(50)")
    every = spark.read.format("pravega").options(scope=scope, pattern="[abc]", **addresses(cluster)).load()
    found = every.where("k = 'k4'")
    assert ids(found) == sorted([*range(4, 50, 10)] * 3)
    read = segments(found)
    assert read is not None and read == (2 + read[1] // 3, read[1])  # one of two streams, and all of the third
    assert ids(every.where("k = 'k4' AND _stream = 'b'")) == [*range(4, 50, 10)]
