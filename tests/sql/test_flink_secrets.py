"""Translations of Flink scripts copy no logins: neither into the script nor into what is said about it."""

from __future__ import annotations

import pytest

from pyspark_pravega.errors import InvalidScriptError
from pyspark_pravega.sql.flink.translation import translate
from tests.flink_cases import DECLARED, cases

SECRET = "HUNTER2"
SOURCE = "'connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 's', 'sink.stream' = 's', 'format' = 'csv'"
REGISTERED = "'connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'j', 'format' = 'pravega-registry'"
TABLE = f"CREATE TABLE s (id INT, name STRING) WITH ({SOURCE}); "
HINT = "/*+ OPTIONS('security.auth-token'='HUNTER2') */"
STATEMENTS = [
    # hints
    f"SELECT {HINT} id FROM s",
    f"SELECT id FROM s {HINT}",
    f"SELECT id FROM s {HINT} AS t ORDER BY id",
    f"INSERT INTO s {HINT} SELECT * FROM s",
    f"INSERT INTO s {HINT} SELECT * FROM s ORDER BY id",
    f"INSERT INTO s (id {HINT}, name) SELECT * FROM s",
    f"INSERT INTO s SELECT {HINT} id, name FROM s {HINT} ORDER BY id",
    f"CREATE VIEW v AS SELECT {HINT} id FROM s LIMIT 3",
    f"EXPLAIN SELECT {HINT} id FROM s",
    f"SELECT id + {HINT} 1 FROM s WHERE {HINT} id = 1",
    "SELECT id FROM s /*+ OPTIONS(token = HUNTER2) */",
    "SELECT id FROM s /*+ OPTIONS('x'='HUNTER2) */ ORDER BY id",
    "SELECT id FROM s /*+ OPTIONS('x' 'HUNTER2') */",
    "SELECT id FROM s /*+ OPTIONS('x' = 'y' 'HUNTER2') */",
    "SELECT /*+ LOGIN(HUNTER2) */ id FROM s",
    # options of tables
    "CREATE TABLE k (id INT) WITH ('connector' = 'kafka', 'properties.sasl.jaas.config' = "
    "'o.a.k.PlainLoginModule required username=\"u\" password=\"HUNTER2\";', 'x' = 't')",
    "CREATE TABLE j (id INT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:mysql://u:HUNTER2@h/db?password=HUNTER2')",
    "CREATE TABLE j (id INT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:oracle:thin:u/HUNTER2@//h:1521/x')",
    "CREATE TABLE j (id INT) WITH ('connector' = 'filesystem', 'path' = 's3a://u:HUNTER2@bucket/x')",
    "CREATE TABLE j (id INT) WITH ('connector' = 'filesystem', 'path' = 'https://h/x?sig=HUNTER2')",
    "CREATE TABLE j (id INT) WITH ('connector' = 'x', 'a' = 'it''s', 'b' = 'HUNTER2')",
    "CREATE TABLE j (id INT) WITH ('connector' = 'x' 'b' = 'HUNTER2' 'c' = 'HUNTER2')",
    "CREATE TABLE j (id INT) WITH ('connector' = 'x', 'b' = 'y' 'HUNTER2')",
    "CREATE TABLE j (id INT) WITH ('connector' = 'x', 'b' 'HUNTER2', 'c' = )",
    "CREATE TABLE j (id INT) WITH ('connector' = 'x', 'b' 'HUNTER2' 'c' = )",
    "CREATE TABLE j (id INT) WITH ('connectorHUNTER2 = 'filesystem', 'path' = 'https://h/x')",
    "CREATE TABLE j (id INT) WITH ('connector' = 'x', 'b' = U&'HUNTER2', 'c' = \"HUNTER2\")",
    "CREATE TABLE j (id INT) WITH ('connector' = 'x', d = HUNTER2, e.f = `HUNTER2`)",
    "CREATE TABLE j (id INT) WITH ('connector' = 'x', 'b' = /* c */ 'HUNTER2' -- 'd' = 'HUNTER2'\n)",
    "CREATE TABLE j (id INT -- it's\n) WITH ('connector' = 'x', 'b' = 'HUNTER2'",
    "CREATE TABLE j (id INT) WITH ('connector' = 'x', 'b' = 'a' || 'HUNTER2')",
    f"CREATE TABLE j (id INT) WITH ({SOURCE}, 'b' = 'HUNTER2')",
    f"CREATE TABLE j (id INT) WITH ({SOURCE}, 'csv.user-token' = 'HUNTER2')",
    f"CREATE TABLE j (id INT) WITH ({SOURCE}, 'controller-uri' = 'tcp://u:HUNTER2@h:9090')",
    f"CREATE TABLE j (id INT) WITH ({SOURCE}, 'controller-uri' = 'tcp://HUNTER2@h:9090?token=HUNTER2')",
    f"CREATE TABLE j WITH ({SOURCE}, 'security.auth-token' = 'HUNTER2') AS SELECT id FROM s",
    f"CREATE TABLE j (id INT) WITH ({REGISTERED}, 'pravega-registry.uri' = 'http://u:HUNTER2@h')",
    f"CREATE TABLE j (id INT) WITH ({REGISTERED}, 'pravega-registry.security.auth-token' = 'HUNTER2')",
    "CREATE TABLE j WITH ('connector' = 'x', 'b' = 'HUNTER2') LIKE s",
    "CREATE OR REPLACE TABLE j (id INT) WITH ('connector' = 'x', 'b' = 'HUNTER2')",
    "ALTER TABLE s SET ('b' = 'HUNTER2')",
    # other things with options
    "CREATE CATALOG c WITH ('type' = 'pravega', 'default-database' = 'd', 'schema-registry-uri' = 'http://u:HUNTER2@h')",
    "CREATE CATALOG c WITH ('type' = 'pravega', 'default-database' = 'd', 'json.api-key' = 'HUNTER2', 'x' = 'HUNTER2')",
    "CREATE CATALOG c WITH ('type' = 'jdbc', 'pwd' = 'HUNTER2', 'base-url' = 'jdbc:x://u:HUNTER2@h')",
    "CREATE DATABASE d WITH ('x' = 'HUNTER2')",
    "CREATE MODEL m INPUT (a STRING) WITH ('provider' = 'openai', 'openai.api-key' = 'HUNTER2')",
    "LOAD MODULE m WITH ('x' = 'HUNTER2')",
    "ADD JAR 'https://u:HUNTER2@h/x.jar'",
    "CREATE FUNCTION f AS 'com.F' USING JAR 's3://u:HUNTER2@b/x.jar'",
    "CALL sys.login(password => 'HUNTER2', 'token' => 'HUNTER2')",
    # settings
    "SET fs.s3a.access.key = HUNTER2",
    "SET fs.x = a HUNTER2",
    "SET 'fs.s3a.secret.key' = 'HUNTER2'",
    "SET `fs.x` = `HUNTER2`",
    "SET 'fs.x' = \"HUNTER2\"",
    "SET fs.x = y--HUNTER2",
    "SET 'fs.x' 'HUNTER2'",
    "SET fs.x HUNTER2",
    "SET 'table.x.password' = 'HUNTER2'",
    "SET 'state.checkpoints.dir' = 's3a://u:HUNTER2@b/c'",
    "RESET 'x' = 'HUNTER2'",
    # comments
    "-- 'x' = 'HUNTER2'\nSELECT 1",
    "-- SET fs.x = HUNTER2;\nSELECT 1",
    "/* CREATE TABLE j (id INT) WITH ('connector' = 'jdbc',\n 'x' = 'HUNTER2') */ SELECT 1",
    "SELECT 1 -- see https://u:HUNTER2@h/x\n FROM s",
    "SELECT id, -- password: HUNTER2\n name FROM s ORDER BY id",
    f"CREATE TABLE j (id INT, -- 'x' = 'HUNTER2'\n n AS id /* 'y' = 'HUNTER2' */ + 1) WITH ({SOURCE}); SELECT n FROM j",
    f"CREATE TABLE j (id INT) WITH ({SOURCE} -- , 'x' = 'HUNTER2'\n)",
    "SELECT 1; -- 'x' = 'HUNTER2'",
    # no SQL
    "WITH ('x' = 'HUNTER2') SELECT FROM",
    "SELECT id FROM s WITH ('x' = 'HUNTER2')",
    "SELECT id FROM s OPTIONS ('x' = 'HUNTER2')",
]


def collect_output(script: str) -> str:
    """All that a translation shows."""
    try:
        done = translate(script)
    except InvalidScriptError as error:
        return str(error)
    return done.script + "\n".join(map(str, done.findings))


@pytest.mark.parametrize("statement", STATEMENTS)
def test_no_login_is_copied(statement: str) -> None:
    assert SECRET in statement
    assert SECRET not in collect_output(TABLE + statement)
    assert SECRET not in collect_output("SET 'execution.runtime-mode' = 'batch'; " + TABLE + statement)
    assert SECRET not in collect_output(statement)


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.long)])
def test_options_that_nobody_knows_are_hidden_wherever_a_statement_ends(step: int) -> None:
    given = f"WITH ('x.y' = '{SECRET}', "
    for number, case in enumerate([DECLARED, *(case.flink for case in cases())]):
        words = case.replace("WITH (", given).replace("OPTIONS(", f"OPTIONS('x.y' = '{SECRET}', ").split(" ")
        for end in range(2 + number % step, len(words) + 1, step):
            assert SECRET not in collect_output(" ".join(words[:end])), words[:end]


def test_what_is_harmless_is_shown() -> None:
    done = translate(
        "-- it's 'format' = 'json', from https://docs/x\n"
        "CREATE TABLE j (id INT) WITH ('connector' = 'kafka', 'topic' = 'orders', 'x' = 'y');\n"
        "SET 'table.exec.state.ttl' = '1 h'; SET 'state.checkpoints.dir' = 'abfss://container@account/x'"
    )
    for text in (
        "-- it's 'format' = 'json', from https://docs/x\n",
        "-- CREATE TABLE j (id INT) WITH ('connector' = 'kafka', 'topic' = 'orders', 'x' = '***')",
        "-- SET 'table.exec.state.ttl' = '1 h'",
        "SET pravega.stream.checkpoint = 'abfss://container@account/x';",
    ):
        assert text in done.script


def test_a_login_in_a_uri_is_given_elsewhere() -> None:
    options = "'type' = 'pravega', 'default-database' = 'd', 'controller-uri' = 'tls://u:HUNTER2@h:9090'"
    done = translate(f"CREATE CATALOG c WITH ({options})")
    assert "SET `spark.sql.catalog.c.controller-uri` = tls://h:9090;" in done.script
    assert "pravega_client_auth_token" in done.findings[0].text


def test_a_checkpoint_directory_with_a_login_is_to_be_written_again() -> None:
    done = translate("SET 'state.checkpoints.dir' = 's3a://u:HUNTER2@b/c'")
    assert done.exit_code == 3 and "\nSET" not in done.script
