"""CREATE, ALTER and DROP whose service is killed after any step: the next statements repair it, or say what to do.

Each statement is done once without harm, for a twin. What it leaves when it is cut off and given again is the same.
"""

from __future__ import annotations

import itertools
import re
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.stream import Stream, StreamConfiguration
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.protocol.dying_service import Death, dying_python

COLUMNS = "(id INT, b STRING)"
EVERYTHING = "'codec'='gzip', 'compatibility'='full', 'routing-key'='id', 'scaling.min-segments'='2', 'tags'='a,b'"
SAID = re.compile("run the same statement again to complete it, or DROP TABLE|cut off, DROP TABLE removes the rest")
THERE, GONE = r"\[(TABLE_OR_VIEW|SCHEMA)_ALREADY_EXISTS\]", r"\[(TABLE_OR_VIEW|SCHEMA)_NOT_FOUND\]"
Prepare = Callable[["Session", str], None]


class Session:
    """The session of the tests, with a catalog beside the others whose service dies."""

    def __init__(self, spark: SparkSession, pravega: Pravega, dying: str, scope: str, death: Death) -> None:
        self._spark, self.pravega, self._dying, self.scope, self.death = spark, pravega, dying, scope, death

    def run(self, statement: str, name: str, dying: bool = False) -> list[tuple[Any, ...]]:
        """Run a statement about a table `{t}` or a namespace `{n}` of this name."""
        catalog = self._dying if dying else "pravega"
        text = statement.format(t=f"{catalog}.`{self.scope}`.{name}", n=f"{catalog}.`{self.scope}{name}`")
        return [tuple(row) for row in self._spark.sql(text).collect()]

    def fails(self, statement: str, name: str) -> str | None:
        """Run a statement; return the message if it fails."""
        try:
            self.run(statement, name)
        except PySparkException as error:
            return str(error)
        return None

    def killed(self, statement: str, name: str, steps: int) -> str | None:
        """Run a statement, and kill its service after so many steps; return the last one, None if it has fewer."""
        self.death.after(steps)
        try:
            self.run(statement, name, dying=True)
            failed = False
        except PySparkException as error:
            failed = True
            assert "was killed by signal 9" in str(error), error
        step = self.death.step()
        assert step is not None or not failed
        return step

    def let_time_pass(self, name: str) -> None:
        """Let the time be over in which the statement that was killed might still be running."""
        stream, controller = Stream(self.scope, name), self.pravega.controller
        if name in self.tables():
            found = controller.stream_configuration(stream)
            tags = tuple(re.sub(r"^(spark\.creating=.* )\d+$", r"\g<1>1", tag) for tag in found.tags)
            if tags != found.tags:
                controller.update_stream(stream, replace(found, tags=tags))

    def tables(self) -> list[str]:
        return [str(row[1]) for row in self.run("SHOW TABLES IN pravega.`" + self.scope + "`", "")]


@pytest.fixture
def session(
    spark: SparkSession, pravega: Pravega, cluster: ClusterInfo, scope: str, tmp_path: Path
) -> Iterator[Session]:
    catalog = f"dying{time.monotonic_ns()}"
    confs = {
        "": "io.github.pysparkpravega.PravegaCatalog",
        ".controller-uri": cluster.controller_uri,
        ".schema-registry-uri": cluster.registry_uri,
        ".python": str(dying_python(tmp_path)),
    }
    for key, value in confs.items():
        spark.conf.set(f"spark.sql.catalog.{catalog}{key}", value)
    yield Session(spark, pravega, catalog, scope, Death(tmp_path))
    for key in confs:
        spark.conf.unset(f"spark.sql.catalog.{catalog}{key}")


def nothing(session: Session, name: str) -> None:
    """Begin with nothing."""


def table(session: Session, name: str) -> None:
    """Begin with a table that has two versions."""
    session.run(f"CREATE TABLE {{t}} {COLUMNS} TBLPROPERTIES ('compatibility'='backward')", name)
    for row in (1, 2):
        session.run(f"INSERT INTO {{t}} VALUES ({row}, 'x')", name)


def bare_stream(session: Session, name: str) -> None:
    """Begin with a stream of another program, which has events and no schema."""
    stream = Stream(session.scope, name)
    session.pravega.controller.create_stream(stream, StreamConfiguration())
    with SegmentAppender(session.pravega.segments, stream, 0, uuid.uuid4()) as appender:
        appender.append(bytes(4) + (9).to_bytes(4, "big") + b'{"id": 7}', 1)
        appender.flush()


def namespace(session: Session, name: str) -> None:
    """Begin with a namespace that has a comment, and a table with a version."""
    session.run("CREATE NAMESPACE {n} COMMENT 'c'", name)
    session.run("CREATE TABLE {n}.t (id INT)", name)
    session.run("INSERT INTO {n}.t VALUES (1)", name)


@dataclass(frozen=True)
class Case:
    """A statement: what is there before it, and how many steps it has at least."""

    statement: str
    before: Prepare
    steps: int
    rows: tuple[tuple[Any, ...], ...] | None = ()
    """What SELECT finds afterwards; None if there is no table."""


def created(properties: str, columns: str = COLUMNS, steps: int = 1) -> Case:
    return Case(f"CREATE TABLE {{t}} {columns} TBLPROPERTIES ({properties})", nothing, steps)


def altered(change: str, steps: int = 1, row: str = "x") -> Case:
    return Case(f"ALTER TABLE {{t}} {change}", table, steps, ((1, row), (2, row)))


QUICK = {
    "create json": created(f"'format'='json', {EVERYTHING}", steps=6),
    "drop": Case("DROP TABLE {t}", table, 5, None),
}
TABLES = {
    "set properties": altered(
        "SET TBLPROPERTIES ('codec'='gzip', 'compatibility'='full', 'retention.type'='size', 'retention.minimum'='1g')",
        steps=3,
    ),
    "create avro": created(f"'format'='avro', {EVERYTHING}", steps=5),
    "create csv": created("'format'='csv', 'csv.delimiter'=';'"),
    "create text": created("'format'='text'", columns=""),
    "create raw": created("'format'='raw'", columns=""),
    "create debezium": created("'format'='debezium-json'"),
    "create if not exists": Case(f"CREATE TABLE IF NOT EXISTS {{t}} {COLUMNS}", nothing, 4),
    "create with comments": Case("CREATE TABLE {t} (id INT COMMENT 'c' NOT NULL DEFAULT 1) COMMENT 'd'", nothing, 4),
    "adopt": Case(
        f"CREATE TABLE {{t}} {COLUMNS} TBLPROPERTIES ('format'='json', 'framing'='none')", bare_stream, 5, ((7, None),)
    ),
    "create as select": Case("CREATE TABLE {t} AS SELECT 7 AS id, 'y' AS b", nothing, 6, ((7, "y"),)),
    "create like": Case("CREATE TABLE {t} LIKE {t}s", nothing, 4),
    "set policy": altered("SET TBLPROPERTIES ('compatibility'='full-transitive')"),
    "set routing key": altered("SET TBLPROPERTIES ('routing-key'='id')"),
    "set scaling": altered("SET TBLPROPERTIES ('scaling.type'='by-rate-kb', 'scaling.target-rate'='10')"),
    "set tags": altered("SET TBLPROPERTIES ('tags'='x,y', 'rollover-size'='1g')"),
    "comment": altered("SET TBLPROPERTIES ('comment'='c')"),
    "add column": Case("ALTER TABLE {t} ADD COLUMN c INT DEFAULT 5", table, 1, ((1, "x", 5), (2, "x", 5))),
    "rename column": altered("RENAME COLUMN b TO c"),
    "widen column": altered("ALTER COLUMN id TYPE BIGINT"),
    "drop column": Case("ALTER TABLE {t} DROP COLUMN b", table, 1, ((1,), (2,))),
    "truncate": Case("TRUNCATE TABLE {t}", table, 1),
    "drop purge": Case("DROP TABLE IF EXISTS {t} PURGE", table, 5, None),
}
NAMESPACES = {
    "create namespace": Case("CREATE NAMESPACE IF NOT EXISTS {n} COMMENT 'c'", nothing, 3, None),
    "alter namespace": Case("ALTER NAMESPACE {n} SET PROPERTIES ('a'='b')", namespace, 1, None),
    "drop namespace": Case("DROP NAMESPACE {n} CASCADE", namespace, 8, None),
}
CASES = [
    *(pytest.param(case, 3, id=name) for name, case in QUICK.items()),
    *(pytest.param(case, 1, marks=pytest.mark.long, id=f"{name}, every step") for name, case in QUICK.items()),
    *(pytest.param(case, 1, marks=pytest.mark.faults, id=name) for name, case in TABLES.items()),
]
"""Each case with the number of steps from one death to the next."""


def state(session: Session, name: str) -> object:
    """All that a statement may have made of a table, but for its name and its events, or None."""
    if name not in session.tables():
        assert name not in session.pravega.registry(session.scope).groups(), "a schema group without a stream"
        return None
    registry = session.pravega.registry(session.scope)
    [(script,)] = session.run("SHOW CREATE TABLE {t}", name)
    group = registry.groups().get(name)
    known = None if group is None else (group, sorted(registry.codecs(name)), len(registry.versions(name)))
    tags = session.pravega.controller.stream_configuration(Stream(session.scope, name)).tags
    return script.replace(f".{name} ", ".t "), known, sorted(tags)


def check_seen(session: Session, name: str) -> None:
    """What a killed statement has left is whole, or the next one says what to do; nothing is hidden."""
    groups, there = session.pravega.registry(session.scope).groups(), session.tables()
    assert name in there or name not in groups
    for statement in ("SELECT count(*) FROM {t}", "DESCRIBE TABLE {t}") if name in there else ():
        message = session.fails(statement, name)
        assert message is None or ("[PRAVEGA_SCHEMA_NOT_FOUND]" in message and SAID.search(message)), message


def drop(session: Session, name: str) -> None:
    """Drop the table, if there is one; nothing is left."""
    session.run("DROP TABLE IF EXISTS {t}", name)
    assert state(session, name) is None


def check_made_again(session: Session, name: str) -> None:
    """A table that is made again under the name has nothing of the one before."""
    session.run(f"CREATE TABLE {{t}} {COLUMNS}", name)
    session.run("INSERT INTO {t} VALUES (9, 'new')", name)
    assert session.run("SELECT * FROM {t}", name) == [(9, "new")]
    assert [row[0] for row in session.run("SELECT version FROM {t}.history", name)] == [1]
    log = CommitLog(session.pravega, Stream(session.scope, name))
    session.run("DROP TABLE {t}", name)
    assert log.rows() == []


@pytest.mark.parametrize(("case", "stride"), CASES)
def test_a_service_killed_at_any_step(session: Session, case: Case, stride: int) -> None:
    if "LIKE" in case.statement:
        for name in ("twins", *(f"t{steps}s" for steps in range(1, 9))):
            session.run("CREATE TABLE {t} (id INT, b STRING)", name)
    case.before(session, "twin")
    session.run(case.statement, "twin")
    expected = state(session, "twin")
    for steps in itertools.count(1, stride):
        name = f"t{steps}"
        case.before(session, name)
        step = session.killed(case.statement, name, steps)
        session.let_time_pass(name)
        check_seen(session, name)
        done = state(session, name) == expected if step is None else None
        if step is None:
            assert done and steps > case.steps, steps
            break
        message = session.fails(case.statement, name)
        if message is not None:  # it was done to its end, and only nobody told
            assert re.search(f"{THERE}|{GONE}|FIELD_ALREADY_EXISTS|UNRESOLVED_COLUMN|FIELD_NOT_FOUND", message), message
        if message is not None and {"AS", "LIKE"} & {*case.statement.split()}:
            # They are no CREATE TABLE that does the rest. The table is there, and says so if it is not whole.
            check_seen(session, name)
            drop(session, name)
            session.run(case.statement, name)
        assert state(session, name) == expected, (steps, step)
        if case.rows is not None:
            assert sorted(session.run("SELECT * FROM {t}", name)) == list(case.rows), (steps, step)
        if case.rows is None:
            check_made_again(session, name)
        else:
            drop(session, name)


def test_a_view_has_one_name_wherever_its_renaming_was_killed(session: Session) -> None:
    for steps in itertools.count(1):
        name = f"v{steps}"
        session.run(f"CREATE VIEW {{t}} AS SELECT {steps} AS n", name)
        step = session.killed("ALTER VIEW {t} RENAME TO {t}_new", name, steps)
        views = [row[1] for row in session.run(f"SHOW VIEWS IN pravega.`{session.scope}` LIKE 'v{steps}*'", "")]
        assert views == [f"{name}_new"], step
        assert session.run("SELECT * FROM {t}_new", name) == [(steps,)]
        session.run("ALTER VIEW {t}_new RENAME TO {t}", name)  # over what is left of it
        session.run("DROP VIEW {t}", name)
        if step is None:
            assert steps > 2
            break


@pytest.mark.faults
def test_a_key_value_table_has_its_columns_wherever_its_creation_was_killed(session: Session) -> None:
    properties = "'format'='kvtable', 'primary-key'='id'"
    for steps in itertools.count(1):
        name = f"k{steps}"
        statement = f"CREATE TABLE IF NOT EXISTS {{t}} {COLUMNS} TBLPROPERTIES ({properties})"
        step = session.killed(statement, name, steps)
        session.run(statement, name)
        session.run("INSERT INTO {t} VALUES (1, 'x')", name)
        assert session.run("SELECT id, b FROM {t}", name) == [(1, "x")], step
        session.run("DROP TABLE {t}", name)
        if step is None:
            assert steps > 2
            break


@pytest.mark.faults
@pytest.mark.parametrize("case", [*QUICK.values(), *TABLES.values()], ids=[*QUICK, *TABLES])
def test_it_is_dropped_wherever_a_service_was_killed(session: Session, case: Case) -> None:
    """Without the statement being given again."""
    if "LIKE" in case.statement:
        pytest.skip("it makes what CREATE TABLE makes")
    for steps in itertools.count(1):
        name = f"t{steps}"
        case.before(session, name)
        step = session.killed(case.statement, name, steps)
        drop(session, name)
        check_made_again(session, name)
        if step is None:
            assert steps > case.steps
            break


@pytest.mark.faults
@pytest.mark.parametrize("case", NAMESPACES.values(), ids=NAMESPACES)
def test_namespaces(session: Session, case: Case) -> None:
    for steps in itertools.count(1):
        name = f"-n{steps}"
        case.before(session, name)
        step = session.killed(case.statement, name, steps)
        if (message := session.fails(case.statement, name)) is not None:
            assert re.search(GONE, message), message
        there = session.pravega.controller.scope_exists(session.scope + name)
        assert there is ("DROP" not in case.statement)
        if there:
            described = dict(row[:2] for row in session.run("DESCRIBE NAMESPACE EXTENDED {n}", name))
            # A comment that was not yet kept is seen to be missing.
            assert described.get("Comment") in (("c",) if step is None else ("c", "", None))
            session.run("ALTER NAMESPACE {n} SET PROPERTIES ('comment'='d')", name)
            session.run("DROP NAMESPACE {n} CASCADE", name)
        assert not session.pravega.controller.scope_exists(session.scope + name)
        assert session.pravega.registry(session.scope + name).groups() == {}
        if step is None:
            assert steps > case.steps
            break
