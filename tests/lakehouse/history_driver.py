"""A program with tables of Pravega whose lakes Iceberg's own runtime reads, rewrites and damages, in one session.

    python -m tests.lakehouse.history_driver JARS DIRECTORY SCOPE URI

The URI is that of a REST catalog, which both use. It prints what it found as a line of JSON: what is equal as an empty
list, and errors as their texts. The servers are those of the environment.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.sql import SparkSession

from pyspark_pravega import configure
from tests.catalog.lake.test_history_in_a_lake import TYPES, create, flatten, ids, insert, read_stream, tier, truncate
from tests.spark_versions import changes_by_options

REWRITES = {
    "small files into one": "rewrite_data_files(table => '{}', options => map('rewrite-all', 'true'))",
    "manifests": "rewrite_manifests(table => '{}')",
    "sorted by another column": (
        "rewrite_data_files(table => '{}', strategy => 'sort', sort_order => 'text DESC NULLS LAST', "
        "options => map('rewrite-all', 'true'))"
    ),
    "old snapshots": "expire_snapshots(table => '{}', older_than => TIMESTAMP '{now}', retain_last => 1)",
    "orphans": "remove_orphan_files(table => '{}', older_than => TIMESTAMP '{earlier}')",
}
"""Procedures of Iceberg that leave the rows of a table as they are."""
STATEMENTS = {"delete": "DELETE FROM {} WHERE id = 7", "update": "UPDATE {} SET text = 'x' WHERE id = 7"}
"""Statements that change a row of the lake."""
WIDER = {"i": "BIGINT", "f": "DOUBLE", "d": "DECIMAL(18,2)", "s.a": "BIGINT", "l.element": "DOUBLE"}
"""Columns of a table, and the types that they get in the lake."""
CHANGES = {
    "text renamed": ("RENAME COLUMN text TO words",),
    "text dropped": ("DROP COLUMN text",),
    "text replaced": ("DROP COLUMN text", "ADD COLUMN text STRING"),
    "a place dropped": ("DROP COLUMN _offset",),
}
"""Changes of columns that reads need."""


Answers: TypeAlias = Iterator[tuple[str, "list[str] | str"]]
"""What was done, with the rows that should not differ, or with an error or a result."""


class Session:
    """A session with the catalog `tiered`, whose lakes the catalog `ice` of Iceberg's runtime has too."""

    def __init__(self, jars: str, directory: Path, scope: str, uri: str) -> None:
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "2")
        builder = builder.config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        lake = {"type": "rest", "uri": uri}
        if jars:
            builder = builder.config("spark.jars", jars)
            extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
            builder = builder.config("spark.sql.extensions", extensions)
            ice = {"": "org.apache.iceberg.spark.SparkCatalog", ".cache-enabled": "false"}
            for key, text in {**ice, **{f".{key}": text for key, text in lake.items()}}.items():
                builder = builder.config(f"spark.sql.catalog.ice{key}", text)
        for key, text in lake.items():
            builder = builder.config(f"spark.sql.catalog.tiered.lake.{key}", text)
        self.spark = configure(builder, catalog="tiered").getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        self.scope, self.directory = scope, directory
        self._streams = 0

    def name(self, table: str) -> str:
        """Return the name by which Iceberg's runtime has the lake of a table."""
        return table.replace("tiered.", "ice.", 1)

    def rows(self, query: str) -> list[str]:
        return sorted(str(row.asDict(recursive=True)) for row in self.spark.sql(query).collect())

    def differences(self, expected: list[str], query: str) -> list[str]:
        """Return the rows in which an answer differs from what is expected."""
        return sorted(set(expected) ^ set(self.rows(query)))

    def compare(self, query: str, table: str) -> list[str]:
        """Return the rows in which our answer to a query differs from that of Iceberg's runtime."""
        ours, theirs = (self.rows(query.format(name)) for name in (table, self.name(table)))
        return sorted(set(ours) ^ set(theirs)) or ([] if len(ours) == len(theirs) else [f"{len(ours)} rows"])

    def files(self, table: str) -> list[Path]:
        """Return the files of a table of the lake, those of data first."""
        [(location,)] = self.spark.sql(f"SELECT file_path FROM {self.name(table)}.files LIMIT 1").collect()
        folder = Path(location.removeprefix("file:").partition("/data/")[0])
        return sorted(
            (file for file in folder.rglob("*") if file.is_file()), key=lambda file: file.suffix != ".parquet"
        )

    def call(self, procedure: str, table: str) -> str:
        now = datetime.now(UTC)
        times = {"now": f"{now:%F %T}", "earlier": f"{now - timedelta(days=2):%F %T}"}
        text = procedure.format(self.name(table).removeprefix("ice."), **times)
        return str(self.spark.sql(f"CALL ice.system.{text}").collect())

    def check(self, table: str, count: int) -> list[str]:
        """Return which reads of a table with versions of 100 rows do not have each event once and in order."""
        spark, wrong = self.spark, []
        self._streams += 1
        if ids(spark.table(table)) != list(range(count)):
            wrong.append("SELECT")
        if ids(spark.sql(f"SELECT id FROM {table} VERSION AS OF 2")) != list(range(200)):
            wrong.append("AS OF")
        _, scope, stream = table.split(".")
        changed = changes_by_options(spark.read, scope.replace("_", "-"), stream, catalog="tiered")
        changes = changed.select("id", "_commit_version").collect()
        if sorted((row.id, row._commit_version) for row in changes) != [(i, i // 100 + 1) for i in range(count)]:
            wrong.append("CHANGES")
        place = {row.id: row[1:] for row in spark.sql(f"SELECT id, _segment, _offset FROM {table}").collect()}
        checkpoint = self.directory / f"checkpoint-{self._streams}"
        seen = flatten(read_stream(spark, table, checkpoint, **{"max-rows-per-trigger": "150"}))
        if sorted(seen) != list(range(count)):
            wrong.append("a stream")
        for segment in {segment for segment, _ in place.values()}:
            offsets = [place[number][1] for number in seen if place[number][0] == segment]
            if offsets != sorted(offsets):
                wrong.append("the order of a stream")
        return wrong


def error_of(action: Callable[[], object]) -> str:
    """Return the error of an action."""
    try:
        return f"it ran: {action()}"[:200]
    except Exception as error:
        return str(error).partition("\n\nJVM")[0][:1000]


def compare_types(session: Session, format: str) -> Answers:
    """Compare columns of every type, as tier has written them and as Iceberg has rewritten them."""
    spark, table = session.spark, f"tiered.{session.scope}.types_{format}"
    columns = {f"c{number}": (type, value) for number, (type, value) in enumerate(TYPES.items())}
    listed = ", ".join(f"{name} {type}" for name, (type, _) in columns.items())
    properties = f"'format'='{format}', 'lake'='{session.scope}.types_{format}'"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, {listed}) USING pravega TBLPROPERTIES ({properties})")
    values = ", ".join(f"CASE WHEN id < 20 THEN {value} END" for _, value in columns.values())
    spark.sql(f"INSERT INTO {table} SELECT id, {values} FROM range(25)")
    names = ", ".join(columns)
    before = session.rows(f"SELECT id, {names} FROM {table}")
    tier(spark, table)
    truncate(spark, table, "tail")
    for step in ("tiered", "rewritten"):
        if step == "rewritten":
            session.call(REWRITES["small files into one"], table)
        yield f"{format}, {step}: rows", session.compare(f"SELECT id, {names} FROM {{}}", table)
        yield f"{format}, {step}: as written", session.differences(before, f"SELECT id, {names} FROM {table}")
        for name, (type, value) in columns.items():
            if step == "rewritten" and format == "avro" and not type.startswith("MAP"):  # Spark compares no maps
                seventh = re.sub(r"\bid\b", "7L", value)
                yield (
                    f"{format}, {step}: {type}",
                    session.compare(f"SELECT id FROM {{}} WHERE {name} = ({seventh}) OR {name} IS NULL", table),
                )


def maintain(session: Session) -> Answers:
    """Rewrite and clean the lake by Iceberg's procedures, each between two tierings."""
    spark, table, count = session.spark, create(session.spark, session.scope, "kept"), 300
    tier(spark, table)
    for name, procedure in REWRITES.items():
        insert(spark, table, count, 100)
        tier(spark, table)
        truncate(spark, table, "tail")
        insert(spark, table, count + 100, 100)
        count += 200
        orphan = session.files(table)[0].with_name("orphan.parquet")
        orphan.write_bytes(b"")
        for file in session.files(table):
            os.utime(file, (time.time() - 5 * 86400,) * 2)
        yield f"did: {name}", session.call(procedure, table)
        if name == "orphans":
            yield "orphans: removed", [str(orphan)] if orphan.exists() else []
        yield name, session.check(table, count)
        tier(spark, table)
        yield f"{name}, tiered again", session.check(table, count)
        yield (
            f"{name}, by versions",
            session.compare("SELECT id, text, _segment, _offset FROM {} WHERE id < 200", table),
        )


def change_rows(session: Session) -> Answers:
    """Delete and update a row of the lake, and roll it back."""
    spark, table = session.spark, create(session.spark, session.scope, "harmed")
    tier(spark, table)
    lake = session.name(table)
    for version in (2, 3):
        spark.sql(f"ALTER TABLE {lake} SET TBLPROPERTIES ('format-version'='{version}')")
        for mode in ("copy-on-write", "merge-on-read"):
            for kind, statement in STATEMENTS.items():
                spark.sql(f"ALTER TABLE {lake} SET TBLPROPERTIES ('write.{kind}.mode'='{mode}')")
                [(snapshot,)] = spark.sql(f"SELECT snapshot_id FROM {lake}.refs WHERE name = 'main'").collect()
                spark.sql(statement.format(lake))
                about = f"{mode} {kind} in format {version}"
                is_seen = (mode, kind) != ("copy-on-write", "update")  # the number of rows stays the same
                yield f"{'error' if is_seen else 'unseen'}: {about}", error_of(lambda: ids(spark.table(table))[7])
                yield f"{'error' if is_seen else 'unseen'} of tier: {about}", error_of(lambda: tier(spark, table))
                session.call(f"rollback_to_snapshot('{{}}', {snapshot}L)", table)
                yield f"rolled back: {about}", [] if ids(spark.table(table)) == list(range(300)) else ["SELECT"]
    insert(spark, table, 300, 100)
    yield "error of tier: format 3", error_of(lambda: tier(spark, table))  # pyiceberg writes no such manifests
    yield "format 3", session.check(table, 400)


def change_columns(session: Session) -> Answers:
    """Widen, add, rename and drop columns of the lake."""
    spark, table = session.spark, f"tiered.{session.scope}.wide"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, i INT, f FLOAT, d DECIMAL(9,2), s STRUCT<a: INT>, l ARRAY<FLOAT>) USING "
        f"pravega TBLPROPERTIES ('format'='avro', 'lake'='{session.scope}.wide')"
    )
    rows = (
        "SELECT id, CAST(id AS INT), CAST(id / 3 AS FLOAT), CAST(id / 7 AS DECIMAL(9,2)), "
        "named_struct('a', CAST(id AS INT)), array(CAST(id / 3 AS FLOAT)) FROM range({}, {})"
    )
    spark.sql(f"INSERT INTO {table} {rows.format(0, 100)}")
    tier(spark, table)
    truncate(spark, table, "tail")
    before = session.rows(f"SELECT * FROM {table}")
    for column, type in WIDER.items():
        spark.sql(f"ALTER TABLE {session.name(table)} ALTER COLUMN {column} TYPE {type}")

    def check(step: str, expected: list[str]) -> Answers:
        yield f"widened: {step}", session.differences(expected, f"SELECT * FROM {table}")
        for condition in ("i = 7", "i > 90", "d = 1.00", "d < 3.5", "f < 1", "s.a = 7", "l[0] < 1"):
            yield f"widened: {step}, {condition}", session.compare(f"SELECT id FROM {{}} WHERE {condition}", table)

    yield from check("as tier wrote it", before)
    session.call(REWRITES["small files into one"], table)
    yield from check("rewritten", before)
    spark.sql(f"INSERT INTO {table} {rows.format(100, 200)}")
    both = session.rows(f"SELECT * FROM {table}")
    yield "widened: tier", error_of(lambda: tier(spark, table))
    truncate(spark, table, "tail")
    yield from check("tiered again", both)
    stream = spark.readStream.table(table).writeStream.trigger(availableNow=True)
    batches: list[str] = []
    stream.foreachBatch(
        lambda batch, _: batches.extend(str(row.asDict(recursive=True)) for row in batch.collect())
    ).option("checkpointLocation", str(session.directory / "wide")).start().awaitTermination()
    yield "widened: a stream", sorted(set(batches) ^ set(both))

    table = create(spark, session.scope, "added")
    tier(spark, table)
    spark.sql(f"ALTER TABLE {table} ADD COLUMN more INT")
    spark.sql(f"INSERT INTO {table} SELECT id, 'r' || id, CAST(id AS INT) FROM range(300, 400)")
    tier(spark, table)
    yield "added", session.compare("SELECT id, text, more FROM {}", table)
    rewrite = "rewrite_data_files(table => '{}', where => 'more IS NOT NULL', options => map('rewrite-all', 'true'))"
    yield "did: added", session.call(rewrite, table)
    truncate(spark, table, "tail")
    yield "added, and rewritten in part", session.compare("SELECT id, text, more FROM {}", table)
    yield "added, and rewritten in part: reads", session.check(table, 400)

    for number, (about, changes) in enumerate(CHANGES.items()):
        table = create(spark, session.scope, f"changed{number}")
        tier(spark, table)
        truncate(spark, table, "tail")
        for change in changes:
            spark.sql(f"ALTER TABLE {session.name(table)} {change}")
        yield f"error: {about}", error_of(partial(session.rows, f"SELECT id, text, _offset FROM {table}"))
        session.call(REWRITES["small files into one"], table)
        yield f"error: {about}, rewritten", error_of(partial(session.rows, f"SELECT id, text, _offset FROM {table}"))
        insert(spark, table, 300, 10)
        yield f"error of tier: {about}", error_of(partial(tier, spark, table))


def main(jars: str, directory: Path, scope: str, uri: str) -> dict[str, Any]:
    """Try everything; without jars, only that lakes work beside no runtime of Iceberg."""
    session = Session(jars, directory, scope.replace("-", "_"), uri)
    if not jars:
        table = create(session.spark, session.scope, "alone")
        tier(session.spark, table)
        return {"alone": session.check(table, 300)}
    parts = {
        "avro": lambda: compare_types(session, "avro"),
        "json": lambda: compare_types(session, "json"),
        "rewrites": lambda: maintain(session),
        "rows": lambda: change_rows(session),
        "columns": lambda: change_columns(session),
    }
    found: dict[str, Any] = {}
    for name, part in parts.items():
        begun = time.time()
        try:
            for about, answer in part():
                found[about] = answer
        except Exception:
            found[name] = [traceback.format_exc()]
        found[f"seconds: {name}"] = time.time() - begun
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])))
