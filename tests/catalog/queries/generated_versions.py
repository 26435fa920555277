"""Tables for queries that are generated: as they were, what was changed between, and with columns that were changed."""

from __future__ import annotations

from dataclasses import replace

from tests.catalog.queries.generated_columns import Column, columns, source
from tests.catalog.queries.generated_tables import Maker, Table, ways_of

HISTORY = "id k i l t b dt at d a s"
CHANGE_COLUMNS = "_change_type _commit_version _commit_timestamp"
VERSIONS = 4
STEP = 40
"""Rows of a version."""
VERSION = Column("v", "INT", tuple(map(str, range(VERSIONS + 2))))
"""The version that wrote a row."""


def versions(maker: Maker) -> None:
    """A table as it was at each version and time, and changes between them. Its stream was scaled meanwhile."""
    some, name = (VERSION, *columns(HISTORY)), maker.name("history")
    for version in range(1, VERSIONS + 1):
        rows = source(columns(HISTORY), f"range({STEP} * {version - 1}, {STEP} * {version}, 1, 1)")
        written = f"SELECT {version} AS v, * FROM ({rows})"
        if version == 1:
            made = "'format'='avro', 'scaling.min-segments'='2'"
            maker.spark.sql(f"CREATE TABLE {name} USING pravega TBLPROPERTIES ({made}) AS {written}")
        else:
            maker.spark.sql(f"INSERT INTO {name} {written}")
        if version == 2:
            maker.scale("history", [0], [(0.0, 0.2), (0.2, 0.5)])
    table = maker.add("history", some, ways_of(name), 4, sequential=False)
    changes = maker.add(
        "changes", some, ways_of(f"{name} CHANGES FROM VERSION 1"), 4, sequential=False, hidden=CHANGE_COLUMNS
    )
    changes = maker.made[-1] = replace(changes, order=("id",))
    found = maker.spark.sql(
        f"SELECT DISTINCT v, CAST(_commit_timestamp AS STRING) AS at FROM {changes.ways['kept']} "
        "WHERE v = _commit_version AND _change_type = 'insert'"
    ).collect()
    times = {row.v: row.at for row in found}
    assert sorted(times) == list(range(1, VERSIONS + 1))
    assert len(found) == VERSIONS
    for version in range(1, VERSIONS + 1):
        _part(maker, table, f"v <= {version}", f"{name} VERSION AS OF {version}")
        _part(maker, changes, f"v = {version}", f"{name} CHANGES FROM VERSION {version} TO VERSION {version}")
    from_two = {"start-version": "2"}
    _part(maker, table, "v BETWEEN 2 AND 3", f"{name} VERSION AS OF 3", from_two)
    _part(maker, table, "v <= 2", f"{name} TIMESTAMP AS OF '{times[2]}'")
    _part(maker, changes, "v BETWEEN 2 AND 3", f"{name} CHANGES FROM VERSION 2 TO VERSION 3")
    _part(maker, changes, "v > 2", f"{name} CHANGES FROM VERSION 2 EXCLUSIVE")
    _part(maker, changes, "v <= 3", f"{name} CHANGES FROM TIMESTAMP '2001-01-01' TO TIMESTAMP '{times[3]}'")
    between = f"FROM TIMESTAMP '{times[1]}' EXCLUSIVE TO TIMESTAMP '{times[4]}' EXCLUSIVE"
    _part(maker, changes, "v IN (2, 3)", f"{name} CHANGES {between}")


def _part(maker: Maker, table: Table, rows: str, read: str, options: dict[str, str] | None = None) -> None:
    """Add a read of some of a table's rows, which are told from the others by the version that wrote them."""
    names = ", ".join(column.name for column in (*table.columns, *table.hidden))
    ways = {
        **ways_of(read, options),
        **{way: f"(SELECT {names} FROM {table.ways[way]} WHERE {rows})" for way in ("Parquet", "kept")},
    }
    maker.made.append(replace(table, name=f"{table.name}_{len(maker.made)}", ways=ways, weight=2))


def evolved_avro(maker: Maker) -> None:
    """Events of four schemas: columns were added with defaults and without, made wider, renamed and dropped."""
    name = maker.name("evolved_avro")
    maker.spark.sql(
        f"CREATE TABLE {name} (id INT, i SMALLINT, d FLOAT, old STRING, gone INT, l INT, y TINYINT) USING pravega "
        "TBLPROPERTIES ('format'='avro')"
    )
    first = "id, CAST(id * 200 AS SMALLINT), CAST(id / 7 AS FLOAT), nullif('ab' || id, 'ab7'), id, id - 9, id % 9"
    maker.spark.sql(f"INSERT INTO {name} SELECT {first} FROM range(0, {STEP}, 1, 1)")
    for change in (
        "ADD COLUMNS (k INT DEFAULT 3, b BOOLEAN NOT NULL DEFAULT true, dt DATE DEFAULT DATE'1582-10-15')",
        "RENAME COLUMN old TO t",
        "DROP COLUMN gone",
    ):
        maker.spark.sql(f"ALTER TABLE {name} {change}")
    second = "id, CAST(-id * 100 AS SMALLINT), float('NaN'), 'ż', 2147483647, -128, id % 4, false, DATE'9999-12-31'"
    maker.spark.sql(f"INSERT INTO {name} SELECT {second} FROM range({STEP}, {2 * STEP}, 1, 1)")
    for change in (
        "ALTER COLUMN id TYPE BIGINT",
        "ALTER COLUMN i TYPE INT",
        "ALTER COLUMN d TYPE DOUBLE",
        "ALTER COLUMN l TYPE BIGINT",
        "ALTER COLUMN y TYPE INT",
        "ADD COLUMN at TIMESTAMP",
    ):
        maker.spark.sql(f"ALTER TABLE {name} {change}")
    some = (*columns("id i d t l k b dt at"), Column("y", "INT", ("0", "-128", "3", "2147483647")))
    last = source(some, f"range({2 * STEP}, {3 * STEP}, 1, 1)").replace(" AS b,", " AS b0,")
    maker.spark.sql(f"INSERT INTO {name} BY NAME SELECT * EXCEPT (b0), coalesce(b0, false) AS b FROM ({last})")
    maker.add("evolved_avro", some, ways_of(name), 8, sequential=True)


def evolved_json(maker: Maker) -> None:
    """The same of JSON, where columns keep their names."""
    name = maker.name("evolved_json")
    maker.spark.sql(f"CREATE TABLE {name} (id INT, i SMALLINT, t STRING, l INT) USING pravega")
    first = "id, CAST(id * 200 AS SMALLINT), IF(id % 5 = 0, NULL, 'ab' || id), id - 9"
    maker.spark.sql(f"INSERT INTO {name} SELECT {first} FROM range(0, {STEP}, 1, 1)")
    for change in (
        "ADD COLUMNS (k INT DEFAULT 3, b BOOLEAN NOT NULL DEFAULT true, dt DATE DEFAULT DATE'1582-10-15')",
        "ALTER COLUMN id TYPE BIGINT",
        "ALTER COLUMN i TYPE INT",
        "ALTER COLUMN l TYPE BIGINT",
        "ADD COLUMN at TIMESTAMP",
    ):
        maker.spark.sql(f"ALTER TABLE {name} {change}")
    some = columns("id i t l k b dt at")
    last = source(some, f"range({STEP}, {3 * STEP}, 1, 1)").replace(" AS b,", " AS b0,")
    maker.spark.sql(f"INSERT INTO {name} BY NAME SELECT * EXCEPT (b0), coalesce(b0, false) AS b FROM ({last})")
    maker.add("evolved_json", some, ways_of(name), 4, sequential=True)
