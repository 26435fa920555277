"""What is told of a script without Spark: mistakes, and the tables that are missing."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.local.state import ClusterInfo
from pyspark_pravega.script.checks import find_first_mistake
from pyspark_pravega.script.named_tables import find_missing_tables
from pyspark_pravega.sql.script import split_script

STREAM = "INSERT INTO pravega.iot.copy SELECT id FROM STREAM pravega.iot.sensor"
CHECKPOINT = "SET pravega.stream.checkpoint = '/data'"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("SELECT 1;\nSET pravega.stream.trigger = 'often'", r"Line 2: \[PRAVEGA_INVALID_OPTION\].*'often'"),
        ("SET pravega.stream.triger = '1 s'", "Line 1: .*Did you mean 'pravega.stream.trigger'"),
        ("set `pravega.stream.mode`=all", r"Line 1: \[PRAVEGA_INVALID_OPTION\].*append, complete, update"),
        ("SELECT 1;\n\nSELEC 2", r"Line 3: \[PRAVEGA_INVALID_SCRIPT\] No statement begins with SELEC. .*SELECT"),
        ("SELECT max((id) FROM t", r"Line 1: .*2 '\(' and 1 '\)'"),
        (STREAM, "Line 1: .*needs a checkpoint.*SET pravega.stream.checkpoint"),
        (f"{CHECKPOINT};\nRESET;\n{STREAM}", "Line 3: .*needs a checkpoint"),
        ("INSERT INTO t SELECT id FROM STREAM(pravega.iot.sensor)", "Line 1: .*needs a checkpoint"),
    ],
)
def test_mistakes(script: str, message: str) -> None:
    assert re.search(message, find_first_mistake(split_script(script)) or "", re.DOTALL), find_first_mistake(
        split_script(script)
    )


@pytest.mark.parametrize(
    "script",
    [
        f"{CHECKPOINT};{STREAM}",
        f"SET pravega.stream.checkpoint = ${{directory}};{STREAM}",
        f"{CHECKPOINT};RESET pravega.stream.trigger;{STREAM}",
        "INSERT INTO t SELECT id FROM stream WHERE id > 1",
        "INSERT INTO t SELECT s.id FROM stream AS s JOIN stream ON true",
        "SET spark.sql.shuffle.partitions = ')('; SET; SET TIME ZONE 'UTC'; SELECT ')'; (SELECT 1) UNION (SELECT (2))",
        "SELECT /*+ BROADCAST(t) */ * FROM t; VALUES (1); TABLE t; FROM t SELECT id; EXPLAIN SELECT 1; SHOW TABLES",
        "WITH a AS (SELECT 1) SELECT * FROM a; CALL pravega.system.create_tag(table => 'iot.sensor', tag => 'x')",
    ],
)
def test_what_may_run_is_left_to_spark(spark: SparkSession, script: str) -> None:
    assert find_first_mistake(split_script(script)) is None
    for statement in split_script(script.replace("${directory}", "/data")):
        spark._jsparkSession.sessionState().sqlParser().parsePlan(statement.text)  # it takes all of these


def test_missing_tables(cluster: ClusterInfo, spark: SparkSession, scope: str) -> None:
    for name in ("sensor", "two-words"):
        spark.sql(f"CREATE TABLE pravega.`{scope}`.`{name}` (id INT) USING pravega")
    spark.sql(f"CREATE VIEW pravega.`{scope}`.latest AS SELECT id FROM pravega.`{scope}`.sensor")
    script = """
    CREATE TABLE IF NOT EXISTS pravega.<s>.made (id INT) USING pravega;
    INSERT INTO pravega.<s>.made SELECT id FROM pravega.<s>.sensor JOIN pravega.<s>.two_words USING (id);
    INSERT INTO pravega.<s>.made SELECT id FROM STREAM(pravega.<s>.sensr) WHERE id > 0;
    SELECT * FROM pravega.<s>.latest, other.<s>.missing; SELECT count(*) FROM pravega.<s>.sensor.history;
    DROP TABLE IF EXISTS pravega.<s>.old; SELECT 'FROM pravega.<s>.text'; SELECT * FROM pravega.<s>.sensr;
    CREATE TABLE pravega.<s>.by_query AS SELECT * FROM PRAVEGA.<s>.`far-away`;
    INSERT INTO pravega.nowhere.made SELECT 1
    """.replace("<s>", f"`{scope}`")
    servers = {"controller-uri": cluster.controller_uri, "schema-registry-uri": str(cluster.registry_uri)}
    found = find_missing_tables(split_script(script), "pravega", servers)
    assert [line for line, _ in found] == [4, 7, 8]
    assert f"Did you mean `{scope}`.sensor?" in found[0][1]
    assert "far-away" in found[1][1] and "There is no namespace nowhere" in found[2][1]
