"""Scripts with streaming statements, run in the tests' session: what they write, show, wait for, and refuse."""

from __future__ import annotations

import io
import re
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.script.progress import ProgressDisplay
from pyspark_pravega.script.runner import ScriptRunner
from pyspark_pravega.script.statement_failures import ScriptFailedError
from pyspark_pravega.sql.script import split_script
from tests.scopes import new_scope
from tests.streams import PATIENCE, running

EVENTS = "(id INT, at TIMESTAMP, name STRING)"
ONLY_INSERT = r"\[PRAVEGA_INVALID_SCRIPT\] Only INSERT INTO"
ROWS = "(1, TIMESTAMP'2020-01-01 00:00:00', 'a'), (2, TIMESTAMP'2020-01-02 00:00:00', 'b')"


class Scripts:
    """Runs scripts in a session of its own each, as the program does."""

    def __init__(self, spark: SparkSession, scope: str, target: str, checkpoint: Path) -> None:
        self.spark = spark
        self.scope = scope
        self.names = {"source": f"pravega.`{scope}`.events", "target": target, "checkpoint": str(checkpoint)}
        self.names["scope"] = scope
        self.names["bare target"] = target.rpartition(".")[2].upper()

    def text(self, script: str) -> str:
        for name, value in self.names.items():
            script = script.replace(f"<{name}>", value)
        return script

    def run(self, script: str, stop_asked: Callable[[], bool] = lambda: False) -> tuple[bool, str]:
        """Run a script; returns whether it ended by itself, and what was said on the way."""
        out = io.StringIO()
        runner = ScriptRunner(self.spark.newSession(), split_script(self.text(script)), ProgressDisplay(out))
        return runner.run(stop_asked), out.getvalue()

    def stream(self, script: str) -> tuple[bool, str]:
        """Run a script that takes what there is."""
        return self.run(
            "SET pravega.stream.checkpoint = '<checkpoint>'; SET pravega.stream.trigger = 'available now';\n" + script
        )

    def rows(self) -> list[tuple[object, ...]]:
        self.spark.sql(f"REFRESH TABLE {self.names['target']}")
        return sorted(tuple(row) for row in self.spark.table(self.names["target"]).collect())


@pytest.fixture(scope="module")
def shared_scope(spark: SparkSession, client_config: ClientConfig) -> Iterator[str]:
    """A scope with a table of two events."""
    with new_scope(client_config) as name:
        spark.sql(f"CREATE TABLE pravega.`{name}`.events {EVENTS} USING pravega")
        spark.sql(f"INSERT INTO pravega.`{name}`.events VALUES {ROWS}")
        yield name


@pytest.fixture
def scripts(spark: SparkSession, shared_scope: str, tmp_path: Path) -> Iterator[Scripts]:
    """Scripts that read the table of two events, and a file table for them to write to."""
    target = f"spark_catalog.default.t{uuid.uuid4().hex}"
    spark.sql(f"CREATE TABLE {target} (number BIGINT, text STRING, flag INT DEFAULT 7) USING parquet")
    yield Scripts(spark, shared_scope, target, tmp_path / "checkpoint")
    spark.sql(f"DROP TABLE {target}")


def test_a_streaming_insert_is_an_insert_that_goes_on_where_it_stopped(
    scripts: Scripts, capsys: pytest.CaptureFixture[str]
) -> None:
    job = """
    -- Columns by position, cast as INSERT casts them; a column that is not named has its default.
    INSERT INTO <target> (text, number)
      SELECT name, id FROM STREAM <source>;
    SELECT 'there are ' || count(*) AS answer FROM <target>;
    """
    scripts.names["source"] += "2"
    scripts.spark.sql(scripts.text(f"CREATE TABLE <source> {EVENTS} USING pravega"))
    scripts.spark.sql(scripts.text(f"INSERT INTO <source> VALUES {ROWS}"))
    ended, said = scripts.stream(job)
    assert ended and "Line 4: started spark_catalog.default.t" in said and "up to date, batch 0, 2 rows in" in said
    assert "|there are 2|" in capsys.readouterr().out  # the SELECT has waited
    assert scripts.rows() == [(1, "a", 7), (2, "b", 7)]
    scripts.spark.sql(scripts.text("INSERT INTO <source> VALUES (3, TIMESTAMP'2020-01-03 00:00:00', 'c')"))
    scripts.stream(job)
    assert scripts.rows() == [(1, "a", 7), (2, "b", 7), (3, "c", 7)]


@pytest.mark.parametrize(
    "insert",
    ["<target>", "<target> (n, id)", "<target> BY NAME", "WITH old AS (SELECT 1 AS one) INSERT INTO <target>"],
    ids=["by position", "named columns", "by name", "after WITH"],
)
def test_the_sink_writes_the_epochs_of_a_key_value_table(scripts: Scripts, insert: str) -> None:
    scripts.names["target"] = f"pravega.`{scripts.scope}`.kv{uuid.uuid4().hex[:8]}"
    scripts.spark.sql(
        scripts.text("""CREATE TABLE <target> (id INT, epoch BIGINT, n BIGINT) USING pravega
            TBLPROPERTIES ('format'='kvtable', 'primary-key'='id', 'epoch-column'='epoch')""")
    )
    statement = insert if insert.startswith("WITH") else f"INSERT INTO {insert}"
    columns = "count(*) AS n, id" if "(n, id)" in insert else "id, count(*) AS n"
    scripts.stream(f"""SET pravega.stream.mode = update;
        CREATE TEMPORARY VIEW events AS SELECT * FROM STREAM <source>;
        {statement} SELECT {columns} FROM events GROUP BY id;
        -- A batch has no epochs, and may name the column.
        INSERT INTO <target> VALUES (3, 7, 3);
        INSERT INTO <target> (id, n) VALUES (4, 4)""")
    assert scripts.rows() == [(1, 1, 1), (2, 1, 1), (3, 7, 3), (4, None, 4)]
    with pytest.raises(ScriptFailedError, match="epoch-column.*Leave the column out of the query"):
        scripts.stream(
            "SET pravega.stream.name = o; INSERT INTO <target> (id, epoch, n) SELECT id, 9, 9 FROM STREAM <source>"
        )


def test_rows_of_a_table_of_changes_are_replaced(scripts: Scripts) -> None:
    """They are not deleted by a column: a table's INSERT has no column that the table has not."""
    source, target = (f"pravega.`{scripts.scope}`.{name}{uuid.uuid4().hex[:8]}" for name in ("so", "ch"))
    scripts.names |= {"source": source, "target": target}
    scripts.spark.sql(f"CREATE TABLE {source} (id INT) USING pravega")
    properties = "'format'='debezium-json', 'primary-key'='id'"
    scripts.spark.sql(f"CREATE TABLE {target} (id INT, n BIGINT) USING pravega TBLPROPERTIES ({properties})")
    job = "SET pravega.stream.mode = update; INSERT INTO <target> SELECT id, count(*) FROM STREAM <source> GROUP BY id"
    for values, counts in (("(1), (2), (1)", [(1, 2), (2, 1)]), ("(1), (3)", [(1, 3), (2, 1), (3, 1)])):
        scripts.spark.sql(f"INSERT INTO {source} VALUES {values}")
        scripts.stream(job)
        assert scripts.rows() == counts
    with pytest.raises(ScriptFailedError, match="too many data columns"):
        scripts.stream(
            "SET pravega.stream.name = o; INSERT INTO <target> WITH ('delete-column'='gone') "
            "SELECT id, 1, true AS gone FROM STREAM <source>"
        )


@pytest.mark.long
def test_several_streams_are_read_as_one(scripts: Scripts) -> None:
    """The table is made by the script itself, and a stream that comes between two runs is read by the second."""
    job = """
    CREATE TABLE IF NOT EXISTS <source> USING pravega TBLPROPERTIES ('pattern'='part-.*');
    INSERT INTO <target> (text, number) SELECT _stream, id FROM STREAM <source>;
    """
    scripts.names["source"] = f"pravega.`{scripts.scope}`.parts"

    def add(name: str, id: int) -> None:
        table = f"pravega.`{scripts.scope}`.`{name}`"
        scripts.spark.sql(f"CREATE TABLE IF NOT EXISTS {table} (id BIGINT) USING pravega")
        scripts.spark.sql(f"INSERT INTO {table} VALUES ({id})")

    add("part-a", 1)
    scripts.stream(job)
    add("part-a", 2)
    add("part-b", 3)
    scripts.stream(job)
    assert scripts.rows() == [(1, "part-a", 7), (2, "part-a", 7), (3, "part-b", 7)]


def test_a_statement_goes_on_however_it_spells_its_table(scripts: Scripts) -> None:
    job = "INSERT INTO <target> SELECT id FROM STREAM <source>"
    for spelled in ("two_words", "`two-words`"):
        scripts.names["target"] = f"pravega.`{scripts.scope}`.{spelled}"
        scripts.spark.sql(scripts.text("CREATE TABLE IF NOT EXISTS <target> (number INT) USING pravega"))
        scripts.stream(job)
        assert scripts.rows() == [(1,), (2,)]
    [checkpoint] = Path(scripts.names["checkpoint"]).iterdir()
    assert checkpoint.name == f"pravega.{scripts.scope}.two-words"


def test_a_statement_that_waits_for_a_server_is_given_up_at_once(scripts: Scripts) -> None:
    name, began = f"c{uuid.uuid4().hex[:8]}", time.monotonic()
    with socket.socket() as taken:  # a port on which nobody listens
        taken.bind(("127.0.0.1", 0))
        prefix = f"spark.sql.catalog.{name}"
        ended, said = scripts.run(
            f"""SET {prefix} = io.github.pysparkpravega.PravegaCatalog;
            SET `{prefix}.controller-uri` = `tcp://127.0.0.1:{taken.getsockname()[1]}`;
            SET `{prefix}.retry-timeout` = 10min;
            SELECT * FROM {name}.iot.sensor""",
            stop_asked=lambda: time.monotonic() > began + 1,
        )
    assert not ended and "SELECT" not in said
    assert time.monotonic() < began + 20


def test_views_watermarks_and_variables(scripts: Scripts) -> None:
    scripts.stream("""
    SET first = 2020;
    CREATE TEMPORARY VIEW timed AS SELECT * FROM STREAM <source> WATERMARK at DELAY OF INTERVAL 0 HOURS;
    WITH days AS (SELECT window(at, '1 day').start AS day, count(*) AS n FROM timed GROUP BY window(at, '1 day'))
    INSERT INTO <target> BY NAME SELECT n AS number, string(day) AS text FROM days WHERE year(day) >= ${first};
    """)
    # The watermark has not passed the second day.
    assert scripts.rows() == [(1, "2020-01-01 00:00:00", 7)]


def test_streaming_statements_run_side_by_side_until_they_are_stopped(scripts: Scripts, shared_scope: str) -> None:
    second = scripts.names["target"] + "_2"
    scripts.spark.sql(f"CREATE TABLE {second} (id INT) USING parquet")
    began = time.monotonic()

    def both_have_rows() -> bool:
        assert time.monotonic() - began < PATIENCE, counts
        counts.clear()
        for table in (scripts.names["target"], second):
            scripts.spark.sql(f"REFRESH TABLE {table}")
            counts.append(scripts.spark.table(table).count())
        return counts == [2, 2]

    counts: list[int] = []

    try:
        ended, said = scripts.run(
            f"""
            SET pravega.stream.checkpoint = '<checkpoint>/';
            SET pravega.stream.trigger = 200 ms;
            USE pravega.`{shared_scope}`;
            INSERT INTO <target> (number) SELECT id FROM STREAM events;
            INSERT INTO {second} SELECT id FROM STREAM(events)
            """,
            stop_asked=both_have_rows,
        )
    finally:
        scripts.spark.sql(f"DROP TABLE {second}")
    assert not ended
    assert said.count("started") == 2
    assert not scripts.spark.streams.active
    checkpoints = Path(scripts.names["checkpoint"]).iterdir()
    assert sorted(checkpoint.name for checkpoint in checkpoints) == [scripts.names["target"], second]


def test_progress_is_shown_when_something_has_changed(scripts: Scripts, tmp_path: Path) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    session = scripts.spark.newSession()
    session.conf.set("spark.sql.streaming.noDataProgressEventInterval", "100")
    writer = session.readStream.table(scripts.names["source"]).writeStream.format("noop").queryName("watched")
    plain, terminal = io.StringIO(), Terminal()
    displays = [ProgressDisplay(plain), ProgressDisplay(terminal)]
    with running(writer, tmp_path) as query:
        query.processAllAvailable()
        for _ in range(3):  # of a query that waits for data
            before, began = len(query.recentProgress), time.monotonic()
            while len(query.recentProgress) < before + 2:
                assert time.monotonic() - began < PATIENCE
                time.sleep(0.05)
            for display in displays:
                display.show([query], now=True)
    line = "watched: up to date, batch 0, 2 rows in, 2 out, idle\n"
    assert (plain.getvalue(), terminal.getvalue()) == (line, line)


def test_a_query_that_fails_ends_the_script(scripts: Scripts) -> None:
    with pytest.raises(ScriptFailedError) as caught:
        scripts.run("""SET pravega.stream.checkpoint = '<checkpoint>';
            INSERT INTO <source> SELECT * FROM STREAM <source> WHERE id > 2;
            SET pravega.stream.name = ratios;
            INSERT INTO <target> (number) SELECT raise_error('spoilt ' || id) FROM STREAM <source>;""")
    text = str(caught.value)
    assert text.startswith("Line 4: the query ratios failed: ") and "spoilt" in text
    assert not scripts.spark.streams.active
    assert "Streaming Query" not in text and "stacktrace" not in text


def test_a_statement_after_a_failed_query_does_not_run(scripts: Scripts) -> None:
    with pytest.raises(ScriptFailedError, match="USER_RAISED_EXCEPTION.*spoilt"):
        scripts.stream("""INSERT INTO <target> (number) SELECT raise_error('spoilt ' || id) FROM STREAM <source>;
            INSERT INTO <source> SELECT 3, current_timestamp(), 'c'""")
    assert scripts.spark.table(scripts.names["source"]).count() == 2


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("SELECT 1;\n\n SELEC 2", r"Line 3: \[PARSE_SYNTAX_ERROR\].*\(line 3, pos 1\)"),
        ("SELECT id,\n nam FROM <source>", r"Line 1: \[UNRESOLVED_COLUMN.*line 2 pos 1$"),
        ("\nINSERT INTO nowhere SELECT * FROM STREAM <source>", r"Line 2: \[TABLE_OR_VIEW_NOT_FOUND\]"),
        ("SELECT * FROM <source>s", r"TABLE_OR_VIEW_NOT_FOUND.* Did you mean pravega\.`.*`\.events\?"),
        ("USE pravega.`<scope>`;\nSELECT * FROM EVENT", r"Line 2: .* Did you mean pravega\.`.*`\.events\?"),
        ("SHOW TABLES IN pravega.`<scope>s`", r"SCHEMA_NOT_FOUND.*\nDid you mean pravega\.\S*[^s]\?$"),
        ("INSERT INTO <target> SELECT id, name, 1 FROM STREAM <source>", "Line 1: .* needs a checkpoint"),
        (
            "SET pravega.stream.checkpoint = '/dev/null';INSERT INTO <target> (number)\nSELECT id FROM STREAM <source>",
            r"Line 1: [\w.]+Exception: .*/dev/null",
        ),
        (
            "INSERT INTO <target> (number) SELECT at FROM STREAM <source>",
            r"Line 1: \[INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST\]",
        ),
        ("INSERT INTO <target> BY NAME SELECT id FROM STREAM <source>", r"Cannot write extra columns `id`"),
        (
            "SET pravega.stream.checkpoint = '<checkpoint>';\n"
            "INSERT INTO <source> WITH ('colour'='red') SELECT * FROM STREAM <source>",
            "Line 2: .*There is no write option 'colour'",
        ),
        ("SET pravega.stream.triger = '1 s'", r"Line 1: \[PRAVEGA_INVALID_OPTION\].*Did you mean 'pravega.stream.trig"),
        ("SET pravega.stream.trigger = 'at noon'", r"Line 1: .*'at noon' of 'pravega.stream.trigger'.*available now"),
        ("SET pravega.stream.mode = 'replace'", r"Line 1: .*'replace' of 'pravega.stream.mode'.*append, complete, upd"),
        (
            "SET pravega.stream.checkpoint = '<checkpoint>';\nSET pravega.stream.mode = 'complete';\n"
            "INSERT INTO <source> (id) SELECT CAST(count(*) AS INT) FROM STREAM <source>",
            r"Line 3: .*outputMode\('complete'\)",
        ),
        ("SELECT 1;\nSELECT * FROM STREAM <source>", f"Line 2: {ONLY_INSERT}"),
        (
            "CREATE TABLE <target>_new AS SELECT * FROM STREAM <source>",
            f"Line 1: {ONLY_INSERT}",
        ),
        (
            "INSERT OVERWRITE <target> (number) SELECT id FROM STREAM <source>",
            f"Line 1: {ONLY_INSERT}",
        ),
        (
            "SET pravega.stream.checkpoint = '<checkpoint>';\n"
            "INSERT INTO <target> (number) SELECT count(DISTINCT id) FROM (SELECT id, timestamp_seconds(id) AS at "
            "FROM STREAM <source>) WATERMARK at DELAY OF INTERVAL 1 SECOND GROUP BY window(at, '1 minute')",
            "Line 2: .*Distinct aggregations are not supported",
        ),
        (
            "FROM STREAM <source> INSERT INTO <target> (number) SELECT id",
            f"Line 1: {ONLY_INSERT}",
        ),
    ],
)
def test_mistakes_are_told_with_their_line(scripts: Scripts, script: str, message: str) -> None:
    with pytest.raises(ScriptFailedError) as caught:
        scripts.run(script)
    text = str(caught.value)
    assert re.search(message, text, re.DOTALL), text
    assert "JVM stacktrace" not in text and "Relation" not in text and "\n\n" not in text, text
    assert scripts.rows() == []


def test_a_statement_whose_streams_have_an_end_ends_by_itself(
    scripts: Scripts, capsys: pytest.CaptureFixture[str]
) -> None:
    ended, _ = scripts.run(
        "SET pravega.stream.checkpoint = '<checkpoint>'; SET pravega.stream.trigger = '1 hour';\n"
        "INSERT INTO <target> (number) SELECT id FROM STREAM <source> WITH ('end-version'='1');\n"
        "SELECT count(*) AS found FROM <target>"
    )
    assert ended and "|2    |" in capsys.readouterr().out  # the SELECT has waited for the end
    assert [row[0] for row in scripts.rows()] == [1, 2]


def test_two_statements_of_one_name_are_refused(scripts: Scripts) -> None:
    with pytest.raises(ScriptFailedError, match=r"lines 2 and 3 are both named spark_catalog\.default\.t\w+, and"):
        scripts.stream("""INSERT INTO <target> (number) SELECT id FROM STREAM <source>;
            INSERT INTO <target> (number) SELECT id + 10 FROM STREAM <source>""")


def test_two_statements_into_one_table_of_files_are_refused(scripts: Scripts) -> None:
    """Also if the first has ended; two into one table of Pravega are not."""
    with pytest.raises(ScriptFailedError, match="lines 4 and 7 both write to .* a table of files"):
        scripts.stream("""INSERT INTO <source> SELECT * FROM STREAM <source> WHERE id > 2;
            SET pravega.stream.name = again; INSERT INTO <source> SELECT * FROM STREAM <source> WHERE id > 2;
            SET pravega.stream.name = first; INSERT INTO <target> (number) SELECT id FROM STREAM <source>;
            SELECT count(*) FROM <target>;
            USE spark_catalog.default;
            SET pravega.stream.name = second; INSERT INTO <bare target> (number) SELECT id + 10 FROM STREAM <source>""")
    assert [row[0] for row in scripts.rows()] == [1, 2]


def test_a_check_parses_all_and_runs_nothing(scripts: Scripts, capsys: pytest.CaptureFixture[str]) -> None:
    def check(script: str) -> None:
        ScriptRunner(scripts.spark.newSession(), split_script(scripts.text(script)), ProgressDisplay()).check()

    check("SELECT 1; CREATE TABLE <source> (x INT) USING pravega; INSERT INTO nowhere SELECT * FROM STREAM nowhere")
    with pytest.raises(ScriptFailedError, match=r"Line 2: \[PARSE_SYNTAX_ERROR\]"):
        check("SELECT 1;\nINSERT INTO x SELEC 1")
    assert capsys.readouterr().out == ""
