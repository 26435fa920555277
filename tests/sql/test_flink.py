"""Flink SQL as Spark SQL: statement by statement, and what is said about each."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import pytest

from pyspark_pravega.errors import InvalidScriptError
from pyspark_pravega.sql.flink.report import ALL_TRANSLATED, INCOMPLETE, Severity
from pyspark_pravega.sql.flink.table_options import FORMATS
from pyspark_pravega.sql.flink.translation import translate
from tests.flink_cases import DECLARED, Case, cases

BEFORE = translate(DECLARED).script.rstrip() + "\n\n"
SOURCE = "'connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 's', 'format' = 'avro'"
TABLE = f"CREATE TABLE s (id INT, name STRING, ts TIMESTAMP(3), a ARRAY<INT>) WITH ({SOURCE}, 'sink.stream' = 's');"


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_statements(case: Case) -> None:
    script = translate(DECLARED + case.flink).script
    assert script.startswith(BEFORE)
    assert script.removeprefix(BEFORE).strip() == case.spark


def test_all_that_is_declared_is_translated() -> None:
    assert len(cases()) >= 60
    done = translate(DECLARED)
    assert done.exit_code == ALL_TRANSLATED and {finding.severity for finding in done.findings} == {Severity.NOTE}


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("SHOW FUNCTIONS", ALL_TRANSLATED),
        (f"CREATE TABLE s (id INT) WITH ({SOURCE}, 'scan.uid' = 'x')", ALL_TRANSLATED),
        (f"CREATE TABLE s (id INT) WITH ({SOURCE}, 'scan.uids' = 'x')", INCOMPLETE),
        ("SET 'table.exec.unheard-of' = '1'", INCOMPLETE),
        ("SELECT 1; ADD JAR 'x'; SELECT 2", INCOMPLETE),
    ],
)
def test_exit_codes(script: str, code: int) -> None:
    assert translate(script).exit_code == code


def test_findings_name_the_line_of_their_statement() -> None:
    done = translate("-- one\nSELECT 1;\n\nADD JAR\n 'x';\nSHOW JOBS")
    assert [(finding.line, finding.severity) for finding in done.findings] == [
        (4, Severity.UNTRANSLATED),
        (6, Severity.UNTRANSLATED),
    ]
    assert done.statements == 3


def test_comments_are_kept() -> None:
    script = translate(
        "-- first\n/* second */ SELECT 1 -- third\n; -- fourth\n"
        f"CREATE TABLE s (id INT, -- fifth\n n INT) WITH ({SOURCE}); -- sixth"
    ).script
    places = [script.index(word) for word in ("first", "second", "third", "fourth", "fifth", "sixth")]
    assert places == sorted(places)
    assert all(script.count(word) == 1 for word in ("first", "second", "third", "fourth", "fifth", "sixth"))


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE CATALOG c WITH ('type' = 'hive', 'security.auth-token' = 'swordfish')",
        "CREATE CATALOG c WITH ('type' = 'pravega', 'default-database' = 'd', 'security.auth-token' = 'swordfish')",
        f"CREATE TABLE s (id INT) WITH ({SOURCE}, 'security.auth-token' = 'swordfish')",
        "CREATE TABLE s (id INT) WITH ('connector' = 'jdbc', 'password' = 'swordfish')",
        f"CREATE TABLE s (id INT) WITH ({SOURCE}, 'unheard-of.password' = 'swordfish')",
        "SET 'my.secret' = 'swordfish'",
    ],
)
def test_no_secret_is_copied(statement: str) -> None:
    done = translate(statement)
    assert "swordfish" not in done.script + "".join(map(str, done.findings))


def test_a_checkpoint_is_asked_for_once_there_is_a_stream() -> None:
    job = f"CREATE TABLE s (id INT) WITH ({SOURCE}, 'sink.stream' = 't'); INSERT INTO s SELECT * FROM s"
    assert "--checkpoint" in str(translate(job).findings)
    done = translate(job, checkpoint="/data/it's")
    assert done.exit_code == ALL_TRANSLATED
    assert done.script.startswith("SET pravega.stream.checkpoint = '/data/it\\'s';")


def test_statements_that_end_too_early_are_told() -> None:
    for case in cases():
        words = case.flink.split(" ")
        for end in range(2, len(words), 4):
            part = " ".join(words[:end])
            if part.count("'") % 2 == 0 and part.count("/*") == part.count("*/"):
                assert translate(f"SELECT 1; {part}").statements, part


def test_another_catalog() -> None:
    done = translate(f"CREATE TABLE s (id INT) WITH ({SOURCE})", catalog="lake")
    assert "CREATE TABLE IF NOT EXISTS lake.iot.s (" in done.script


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("SELECT 'open", "Look for a quote"),
        ("-- nothing\n;", "has no statement"),
    ],
)
def test_text_that_is_no_script(script: str, reason: str) -> None:
    with pytest.raises(InvalidScriptError, match=reason):
        translate(script)


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("CREATE TABLE t (id INT) WITH ('connector' = 'pravega', 'scope' = 's')", "neither 'scan.streams' nor"),
        ("CREATE TABLE t (id INT) WITH ('connector' = 'pravega', 'scan.streams' = 's')", "The format ''"),
        (f"CREATE TABLE t (id INT) WITH ({SOURCE}, 'scan.execution.type' = 'both')", "streaming, batch"),
        (f"CREATE TABLE t (id INT) WITH ({SOURCE}, 'sink.semantic' = 'twice')", "exactly-once"),
        (f"CREATE TABLE t (id INT) WITH ({SOURCE}, 'scan.start-streamcuts' = 'a;b')", "2 stream cuts for 1 stream"),
        (f"CREATE TABLE t (id INT) WITH ({SOURCE}, 'sink.routing-key.field.name' = 'x')", "routing key 'x'"),
        (f"{TABLE} SELECT id FROM s WHERE name SIMILAR TO 'a%'", "use RLIKE"),
        (f"{TABLE} INSERT INTO s (id) SELECT CAST(COUNT(DISTINCT id) AS INT) FROM s", "APPROX_COUNT_DISTINCT"),
        (f"CREATE TABLE t (id INT) WITH ({SOURCE}) PARTITIONED BY (id)", "not expected"),
        (f"CREATE TABLE t (id INT) PARTITIONED BY (id) WITH ({SOURCE})", "no partitions"),
        (f"CREATE TABLE t (id INT ARRAY) WITH ({SOURCE})", "ARRAY<INT>"),
        (f"CREATE TABLE t (id INTERVAL DAY) WITH ({SOURCE})", "BIGINT"),
        (f"CREATE TABLE t (id UNHEARD) WITH ({SOURCE})", "UNHEARD"),
        (f"CREATE TABLE t (id INT) WITH ({SOURCE}, 5)", "'key' = 'value'"),
        (f"CREATE TABLE t (id INT) WITH ({SOURCE}); INSERT INTO t SELECT 1", "no 'sink.stream'"),
        ("SET 'a'", "SET 'key' = 'value'"),
        ("DROP TABLE t", "not declared"),
        ("DROP VIEW v", "not declared"),
        ("SHOW TABLES", "not a Pravega catalog"),
        ("USE MODULES core", "no modules"),
    ],
)
def test_what_cannot_be_translated_is_left_as_a_comment(statement: str, reason: str) -> None:
    done = translate(statement)
    assert done.exit_code == INCOMPLETE
    assert reason in done.findings[-1].text
    last = statement.rpartition("; ")[2]
    assert f"-- {last}" in done.script and f"\n{last}" not in done.script


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("EXTRACT(EPOCH FROM ts)", "EXTRACT(EPOCH ...) is not known here"),
        ("INITCAP(name)", "only after a space"),
        ("DATE_FORMAT(ts, 'YYYY-MM')", "yyyy is the year of a date"),
    ],
)
def test_what_means_something_else_is_to_be_checked(expression: str, reason: str) -> None:
    done = translate(f"{TABLE} SELECT {expression} FROM s")
    assert any(finding.severity is Severity.CHECK and reason in finding.text for finding in done.findings)


def test_places_in_arrays_and_seconds() -> None:
    """Flink has NULL behind the end of an array, and seconds without a fraction."""
    done = translate(f"{TABLE} SELECT a[3], EXTRACT(SECOND FROM ts), EXTRACT(HOUR FROM ts) FROM s")
    for text in ("get(a, 2)", "CAST(EXTRACT(SECOND FROM ts) AS INT)", "  EXTRACT(HOUR FROM ts)"):
        assert text in done.script


OPTIONS_OF_FLINK = """
    controller-uri scope security.auth-type security.auth-token security.validate-hostname security.trust-store
    scan.execution.type scan.reader-group.name scan.streams scan.start-streamcuts scan.end-streamcuts scan.uid
    scan.reader-group.max-outstanding-checkpoint-request scan.reader-group.refresh.interval
    scan.event-read.timeout.interval scan.reader-group.checkpoint-initiate-timeout.interval
    sink.stream sink.semantic sink.txn-lease-renewal.interval sink.enable.watermark-propagation
    sink.routing-key.field.name
    json.fail-on-missing-field json.ignore-parse-errors json.timestamp-format.standard json.map-null-key.mode
    json.encode.decimal-as-plain-number csv.field-delimiter csv.quote-character csv.escape-character csv.null-literal
    csv.disable-quote-character csv.allow-comments csv.ignore-parse-errors raw.charset raw.endianness
    debezium-json.schema-include pravega-registry.uri pravega-registry.namespace pravega-registry.group-id
    pravega-registry.format
""".split()
"""Those of the connector's tables, and of the formats that it is used with."""


@pytest.mark.parametrize("key", OPTIONS_OF_FLINK)
def test_an_option_of_flink_is_known_and_on_the_page(key: str) -> None:
    named = re.findall("`([^`\n]+)`", (Path(__file__).parents[2] / "docs" / "flink.md").read_text())
    assert any(fnmatch.fnmatchcase(key, each) for each in named if " " not in each)
    form = key.split(".")[0] if key.split(".")[0] in FORMATS else "avro"
    options = {
        "connector": "pravega",
        "scope": "iot",
        "scan.streams": "s",
        "sink.stream": "s",
        "format": form,
        key: "s",
    }
    written = ", ".join(f"'{name}' = '{text}'" for name, text in options.items())
    assert "is not known, and was left out" not in translate(f"CREATE TABLE s (s STRING) WITH ({written});").script


def test_a_name_of_several_streams_stands_for_the_same_streams_in_all_of_a_script() -> None:
    """Else a query that runs already would go on with those of the second table."""
    create = "CREATE TABLE t (id INT) WITH ({}, 'scan.streams' = '{}');"
    options = SOURCE.replace("'scan.streams' = 's', ", "")
    script = "".join(create.format(options, each) + "SELECT id FROM t; DROP TABLE t;" for each in ("a;b", "a;b", "a;c"))
    made = translate(script).script
    assert made.count("TBLPROPERTIES ('streams'='a,b')") == 4 and "'a,c'" not in made
    assert made.count("FROM pravega.iot.t AS t") == 2
    assert "SELECT id FROM pravega.iot.a UNION ALL SELECT id FROM pravega.iot.c" in made


def test_a_name_of_several_streams_is_that_of_no_stream_of_the_script() -> None:
    options = SOURCE.replace("'scan.streams' = 's', ", "")
    several = f"CREATE TABLE halls (id INT) WITH ({options}, 'scan.streams' = 'a;b');"
    sink = f"CREATE TABLE result (id INT) WITH ({options}, 'sink.stream' = 'halls');"
    insert = "INSERT INTO result SELECT id FROM halls;"
    made = translate(sink + several + insert).script
    assert "TBLPROPERTIES ('streams'" not in made
    assert "SELECT id FROM STREAM pravega.iot.a UNION ALL SELECT id FROM STREAM pravega.iot.b" in made
    refused = translate(several + sink + insert)
    assert "INSERT INTO pravega.iot.halls" not in refused.script
    assert "The stream halls has the name of a table of several streams" in str(refused)
