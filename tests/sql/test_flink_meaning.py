"""What means something else in Spark is said of each statement of a Flink script, and of no other."""

from __future__ import annotations

import pytest

from pyspark_pravega.sql.flink.report import ALL_TRANSLATED, INCOMPLETE, Severity
from pyspark_pravega.sql.flink.translation import Translation, translate

COLUMNS = """id INT, name STRING, ok BOOLEAN, x DOUBLE, price DECIMAL(10, 2), day DATE, code CHAR(3), raw BYTES,
    ts TIMESTAMP(3), seen TIMESTAMP_LTZ(3), tags ARRAY<STRING>, r ROW<id BOOLEAN>, text AS UPPER(name)"""
JSON = "'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601'"
OPTIONS = f"'connector' = 'pravega', 'scope' = 'iot', 'sink.stream' = 's', {JSON}"
BATCH = f"CREATE TABLE s ({COLUMNS}) WITH ({OPTIONS}, 'scan.streams' = 's', 'scan.execution.type' = 'batch');"
CHECKPOINT = "SET 'state.checkpoints.dir' = '/c';"


def list_checks(done: Translation) -> list[str]:
    return [finding.text for finding in done.findings if finding.severity is not Severity.NOTE]


def make_stream(name: str, columns: str, time: str) -> str:
    mark = f", WATERMARK FOR {time} AS {time}" if time else ""
    return f"CREATE TABLE {name} ({columns}{mark}) WITH ({OPTIONS}, 'scan.streams' = '{name}');"


ZONED = CHECKPOINT + make_stream("s", "id INT, ts TIMESTAMP_LTZ(3)", "ts") + make_stream("t", "n BIGINT", "")
TUMBLE = "INSERT INTO t SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL {})) GROUP BY window_start"


@pytest.mark.parametrize(
    ("zone", "length", "same"),
    [
        ("Asia/Shanghai", "'1' DAY", False),
        ("Asia/Shanghai", "'1' HOUR", True),
        ("Asia/Shanghai", "'3' HOURS", False),
        ("Asia/Kolkata", "'1' HOUR", False),
        ("Asia/Kolkata", "'10' MINUTES", True),
        ("GMT-05:30", "'1' HOUR", False),
        ("GMT+8", "'7' MINUTES", False),
        ("Europe/Berlin", "'1' HOUR", False),  # an hour comes twice in autumn, and all windows in it have two hours
        ("No/Where", "'1' MINUTE", False),
        (None, "'1' DAY", False),
        (None, "'1' MINUTE", False),
        ("UTC", "'1' DAY", True),
        ("Etc/UTC", "'1' DAY", True),
        ("+00:00", "'1' DAY", True),
    ],
)
def test_windows_of_zoned_time_begin_by_flinks_clock(zone: str | None, length: str, same: bool) -> None:
    done = translate((f"SET 'table.local-time-zone' = '{zone}';" if zone else "") + ZONED + TUMBLE.format("s", length))
    assert done.exit_code == (ALL_TRANSLATED if same else INCOMPLETE)
    assert ("window() a start" in str(done.findings)) == (not same)


@pytest.mark.parametrize(
    ("query", "same"),
    [
        ("SELECT COUNT(*) FROM s GROUP BY TUMBLE(ts, INTERVAL '1' DAY)", False),
        ("SELECT COUNT(*) FROM s GROUP BY HOP(ts, INTERVAL '1' HOUR, INTERVAL '1' DAY)", True),
        ("SELECT COUNT(*) FROM s GROUP BY HOP(ts, INTERVAL '1' DAY, INTERVAL '2' DAYS)", False),
        ("SELECT COUNT(*) FROM s GROUP BY SESSION(ts, INTERVAL '1' DAY)", True),
        (TUMBLE.format("v", "'1' DAY").partition("t ")[2], False),
        (TUMBLE.format("w", "'1' DAY").partition("t ")[2], False),  # its type is not known
    ],
)
def test_windows_of_all_kinds_are_judged(query: str, same: bool) -> None:
    views = "CREATE VIEW v AS SELECT ts FROM s; CREATE VIEW w AS SELECT COALESCE(NULL, ts) AS ts FROM s;"
    done = translate(f"SET 'table.local-time-zone' = 'Asia/Shanghai'; {ZONED} {views} INSERT INTO t {query}")
    assert done.exit_code == (ALL_TRANSLATED if same else INCOMPLETE)


def test_windows_of_time_without_a_zone_are_the_same() -> None:
    tables = CHECKPOINT + make_stream("s", "id INT, ts TIMESTAMP(3)", "ts") + make_stream("t", "n BIGINT", "")
    views = "CREATE VIEW v (ts) AS SELECT a.ts FROM s AS a;"
    for source in ("s", "v"):
        done = translate(tables + views + TUMBLE.format(source, "'1' DAY"))
        assert done.exit_code == ALL_TRANSLATED, done.findings
    done = translate("SET 'table.local-time-zone' = 'Asia/Shanghai';" + tables)
    assert "TIMESTAMP_LTZ" not in str(done.findings) and done.exit_code == INCOMPLETE


LOCAL = CHECKPOINT + make_stream("e", "id INT, ts TIMESTAMP(3)", "ts") + BATCH
OF_THE_ZONE = [
    "CURRENT_DATE",
    "CAST(CURRENT_DATE AS STRING)",
    "LOCALTIMESTAMP",
    "FROM_UNIXTIME(id)",
    "UNIX_TIMESTAMP(name)",
    "DATE_FORMAT(seen, 'HH')",
    "DATE_FORMAT(NOW(), 'HH')",
    "CAST(seen AS DATE)",
    "CAST(seen AS TIMESTAMP(3))",
    "CAST(ts AS TIMESTAMP_LTZ(3))",
    "CAST(name AS TIMESTAMP_LTZ(3))",
    "EXTRACT(DAY FROM seen)",
    "YEAR(seen)",
    "FLOOR(seen TO DAY)",
    "seen > TIMESTAMP '2024-01-01 00:00:00'",
    "seen BETWEEN '2024-01-01' AND '2024-01-02'",
]
OF_NO_ZONE = [
    "DATE_FORMAT(ts, 'HH')",
    "EXTRACT(DAY FROM ts)",
    "YEAR(day)",
    "CAST(ts AS DATE)",
    "UNIX_TIMESTAMP()",
    "CURRENT_TIMESTAMP",
    "seen > CURRENT_TIMESTAMP - INTERVAL '1' HOUR",
    "TO_TIMESTAMP_LTZ(id, 3)",
    "FLOOR(ts TO DAY)",
    "CAST(seen AS TIMESTAMP_LTZ(6))",
]


@pytest.mark.parametrize("value", OF_THE_ZONE)
def test_values_that_need_flinks_zone_are_to_be_checked(value: str) -> None:
    statement = f"SELECT {value} FROM s"
    done = translate(LOCAL + statement)
    assert done.exit_code == INCOMPLETE and "'table.local-time-zone' = 'UTC'" in done.findings[-1].text
    # Nothing else is set where Flink's zone is known, or where there is no event time that needs one.
    known = translate("SET 'table.local-time-zone' = 'UTC';" + LOCAL + statement)
    assert not [text for text in list_checks(known) if "zone" in text]
    assert not [text for text in list_checks(translate(BATCH + statement)) if "zone" in text]


@pytest.mark.parametrize("value", OF_NO_ZONE)
def test_values_that_need_no_zone_are_the_same(value: str) -> None:
    assert list_checks(translate(f"{LOCAL} SELECT {value} FROM s")) == []


def test_columns_computed_and_written_in_a_zone_are_to_be_checked() -> None:
    computed = BATCH.replace("text AS UPPER(name)", "today AS CURRENT_DATE")
    assert "CURRENT_DATE" in str(list_checks(translate(LOCAL.replace(BATCH, computed) + "SELECT id FROM s")))
    for columns, values, told in (("ts", "NOW()", True), ("seen", "ts", True), ("seen", "NOW()", False)):
        done = translate(f"{LOCAL} INSERT INTO s ({columns}) SELECT {values} FROM s")
        assert bool(list_checks(done)) == told


def test_a_hint_makes_a_stream_whose_time_has_no_zone() -> None:
    table = BATCH.replace("text AS UPPER(name)", "WATERMARK FOR ts AS ts")
    hint = "/*+ OPTIONS('scan.execution.type' = 'streaming') */"
    assert "set the zone to UTC" in str(
        list_checks(translate(f"{CHECKPOINT} {table} INSERT INTO s SELECT * FROM s {hint}"))
    )


@pytest.mark.parametrize(
    ("value", "spark"),
    [
        ("CAST(id AS STRING)", "CAST(id AS STRING)"),
        ("CAST(id + 1 AS VARCHAR)", "CAST(id + 1 AS STRING)"),
        ("CAST(name AS STRING)", "CAST(name AS STRING)"),
        ("CAST(text AS STRING)", "CAST(text AS STRING)"),
        ("CAST(code AS STRING)", "CAST(code AS STRING)"),
        ("CAST(price * 2 AS STRING)", "CAST(price * 2 AS STRING)"),
        ("CAST(day AS STRING)", "CAST(day AS STRING)"),
        ("CAST(COALESCE(id, 0) AS STRING)", "CAST(COALESCE(id, 0) AS STRING)"),
        ("CAST(CASE WHEN ok THEN 1 END AS STRING)", "CAST(CASE WHEN ok THEN 1 END AS STRING)"),
        ("CAST(ok AS STRING)", "upper(CAST(ok AS STRING))"),
        ("TRY_CAST(ok AS STRING)", "upper(TRY_CAST(ok AS STRING))"),
        ("CAST(id > 1 AS STRING)", "upper(CAST(id > 1 AS STRING))"),
        ("CAST(NOT ok AS STRING)", "upper(CAST(NOT ok AS STRING))"),
        ("CAST(price AS INT)", "CAST(price AS INT)"),
        ("CAST('12' AS INT)", "CAST('12' AS INT)"),
        ("REGEXP_REPLACE(name, '(a)', '$1')", "REGEXP_REPLACE(name, '(a)', '\\\\$1')"),
        ("REGEXP_REPLACE(name, '(a)', '\\')", "REGEXP_REPLACE(name, '(a)', '\\\\\\\\')"),
        ("TO_TIMESTAMP('2024-01-01')", "TRY_CAST('2024-01-01' AS TIMESTAMP_NTZ)"),
        ("TO_TIMESTAMP('2024-01-01 10:00:00.123')", "TRY_CAST('2024-01-01 10:00:00.123' AS TIMESTAMP_NTZ)"),
        ("TO_DATE('2024-01-01')", "TRY_CAST('2024-01-01' AS DATE)"),
        ("FLOOR(x)", "CAST(FLOOR(x) AS DOUBLE)"),
        ("CEILING(x)", "CAST(CEILING(x) AS DOUBLE)"),
        ("CEIL(2.5E0)", "CAST(CEIL(2.5E0) AS DOUBLE)"),
        ("SIGN(id)", "CAST(SIGN(id) AS INT)"),
        ("SIGN(x)", "SIGN(x)"),
        ("TIMESTAMPADD(MONTH, 1, day)", "CAST(TIMESTAMPADD(MONTH, 1, day) AS DATE)"),
        ("FLOOR(ts TO DAY)", "CAST(date_trunc('DAY', ts) AS TIMESTAMP_NTZ)"),
        ("FLOOR(day TO MONTH)", "CAST(date_trunc('MONTH', day) AS DATE)"),
        ("TIMESTAMPDIFF(DAY, ts, ts)", "TIMESTAMPDIFF(DAY, ts, ts)"),
    ],
)
def test_values_are_the_same(value: str, spark: str) -> None:
    done = translate(f"{BATCH} SELECT {value} FROM s")
    assert list_checks(done) == [] and f"  {spark}\n" in done.script


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("CAST(ts AS STRING)", "no trailing zeros"),
        ("CAST(seen AS VARCHAR)", "no trailing zeros"),
        ("CAST(x AS STRING)", "different digits"),
        ("CAST(x + id AS STRING)", "different digits"),
        ("CAST(tags AS STRING)", "prints ARRAY differently"),
        ("CAST(raw AS STRING)", "prints BINARY differently"),
        ("CAST(r AS STRING)", "prints STRUCT differently"),
        ("CAST(r.id AS STRING)", "its type is not known"),
        ("CAST(tags[1] AS STRING)", "its type is not known"),
        ("CAST(my_function(id) AS STRING)", "its type is not known"),
        ("CAST(name AS VARCHAR(2))", "neither cuts nor pads"),
        ("CAST(name AS CHAR)", "neither cuts nor pads"),
        ("CAST(name AS INT)", "cuts off the fraction"),
        ("TRY_CAST(name AS BIGINT)", "cuts off the fraction"),
        ("CAST('1.5' AS INT)", "cuts off the fraction"),
        ("REGEXP_REPLACE(name, 'a', code)", "in the replacement"),
        ("TO_TIMESTAMP(name)", "became TRY_CAST"),
        ("TO_TIMESTAMP('2024-01-01T10:00:00')", "became TRY_CAST"),
        ("TO_TIMESTAMP(name, 'yyyy')", "not match the pattern"),
        ("TO_DATE(name)", "became TRY_CAST"),
        ("TO_DATE(name, 'yyyy')", "not match the pattern"),
        ("TO_TIMESTAMP_LTZ(name)", "CAST it to TIMESTAMP_LTZ"),
        ("TIMESTAMPDIFF(MONTH, ts, ts)", "a month in Flink"),
        ("FLOOR(ts TO WEEK)", "begins on Sunday"),
        ("FIRST_VALUE(name)", "any value"),
        ("TYPEOF(name)", "not known"),
    ],
)
def test_values_that_differ_are_to_be_checked(value: str, reason: str) -> None:
    done = translate(f"{BATCH} SELECT {value} FROM s")
    assert done.exit_code == INCOMPLETE and reason in str(list_checks(done))


@pytest.mark.parametrize(
    ("query", "known"),
    [
        ("SELECT CAST(s.id AS STRING) FROM s", True),
        ("SELECT CAST(t.n AS STRING) FROM (SELECT id AS n, ok AS id FROM s) AS t", True),
        ("SELECT CAST(t.id AS STRING) FROM (SELECT x AS id FROM s) AS t", False),
        ("SELECT CAST(b AS STRING) FROM (SELECT id, x FROM s) AS t (a, b)", False),
        ("WITH c AS (SELECT x AS id FROM s) SELECT CAST(id AS STRING) FROM c", False),
        ("WITH c (n) AS (SELECT id FROM s) SELECT CAST(n AS STRING) FROM c", True),
        ("SELECT CAST(id AS STRING) FROM (SELECT id FROM s UNION ALL SELECT x FROM s)", False),
        ("SELECT CAST(n AS STRING) FROM v", True),
        ("SELECT CAST(f AS STRING) FROM v", False),
        ("SELECT CAST(a.id AS STRING) FROM s AS a JOIN v ON a.id = v.n", True),
        ("SELECT CAST(y AS STRING) FROM (VALUES (1, 'a')) AS t (x, y)", True),
        ("SELECT CAST(tag AS STRING) FROM s CROSS JOIN UNNEST(tags) AS t (tag)", False),
        ("SELECT id FROM s WHERE EXISTS (SELECT 1 FROM v WHERE CAST(s.x AS STRING) = 'a')", False),
        ("SELECT id FROM s WHERE EXISTS (SELECT 1 FROM v WHERE CAST(s.id AS STRING) = 'a')", True),
    ],
)
def test_types_are_followed_through_a_query(query: str, known: bool) -> None:
    done = translate(f"{BATCH} CREATE VIEW v (n, f) AS SELECT id, x FROM s; {query}")
    assert bool(list_checks(done)) == (not known), done.findings


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("INSERT INTO s PARTITION (name = 'x') SELECT id FROM s", "no partitions"),
        ("INSERT INTO s PARTITION (name = 'x') (id) SELECT id FROM s", "no partitions"),
        ("INSERT INTO s PARTITION (name) SELECT id, name FROM s", "no partitions"),
        ("INSERT INTO s SELECT id FROM s ON CONFLICT DO NOTHING", "CONFLICT"),
        ("SELECT id FROM s TABLESAMPLE BERNOULLI (5)", "SAMPLE"),
    ],
)
def test_no_part_of_a_statement_is_lost(statement: str, reason: str) -> None:
    done = translate(f"{BATCH} {statement}")
    assert done.exit_code == INCOMPLETE and reason in done.findings[-1].text
    assert f"\n-- {statement}" in done.script


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT /*+ X(a) */ INTO s SELECT * FROM s",
        "INSERT INTO s (id /*+ X(a) */) SELECT id FROM s",
        "INSERT INTO s (id) SELECT /*+ X(a) */ id FROM s",
        "SELECT id FROM s /*+ X(a) */",
    ],
)
def test_hints_that_nobody_reads_are_told(statement: str) -> None:
    assert list_checks(translate(f"{BATCH} {statement}")) == ["The hint X was left out."]
