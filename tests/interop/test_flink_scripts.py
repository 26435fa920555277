"""Scripts of Flink, run by Flink, beside what `translate` makes of them, run by Spark: the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from pyspark_pravega.local.state import ClusterInfo
from tests.flink_cases import DECLARED, cases
from tests.interop.flink import Flink, wait_for
from tests.interop.flink_scripts import BATCH_OF_BIDS, change, declarations, place, run_by_spark, running_in_flink
from tests.interop.java_process import JavaError
from tests.scopes import Sweeper

EXAMPLE = "the example of docs/flink.md"
CUTS = "stream cuts"
COMPARED = {
    EXAMPLE: ["totals"],
    "catalog statements": ["mytable"],
    "the table of the documents": ["behavior"],
    "csv": ["csv"],
    "timestamps of csv": ["`csv-times`"],
    "raw text": ["lines"],
    "raw bytes": ["images"],
    "several streams as a stream": ["`hall-a`", "`hall-b`", "totals"],
    "the delay of a watermark in a sink": ["late"],
    "options of the sink": ["sunk"],
    "views": ["totals"],
    "a projection as a stream": ["totals"],
    "columns by name": ["totals"],
    "a tumbling window": ["`per-window`"],
    "a hopping window with names": ["`per-window`"],
    "a session window": ["`per-window`"],
    "group windows": ["`per-window`"],
    "an interval join": ["totals"],
    "a join with a table at rest": ["totals"],
    "a union and a common table expression": ["totals"],
    "a statement set": ["totals"],
    "an older statement set": ["`per-window`"],
    "a batch insert": ["totals"],
    "timestamps of Avro": ["measured", "`per-window`"],
}
"""Names of cases, each with the streams that its statements write."""
REFUSED_BY_FLINK = {
    "a batch insert": "Querying an unbounded table .*bid' in batch mode is not allowed",
    "a session window": "No match found for function signature SESSION",
    "an aggregate without window": "totals' doesn't support consuming update changes",
    "timestamps of Avro": r"Unsupported to derive Schema for type: TIMESTAMP_LTZ\(3\)",
    "timestamps of the schema registry's format": "not registered",
}
"""Names of cases that Flink 1.18 does not run as they are, each with its error."""
CHANGED = {
    EXAMPLE: {
        """'pravega-registry',
  'pravega-registry.uri' = 'http://localhost:9092',
  'pravega-registry.namespace' = 'iot',
  'pravega-registry.group-id' = 'totals'""": "'json', 'json.timestamp-format.standard' = 'ISO-8601'",
    },
    "a session window": {
        "window_start, item, SUM(price) FROM TABLE(SESSION(TABLE bid PARTITION BY item, DESCRIPTOR(bidtime), "
        "INTERVAL '5' MINUTES)) GROUP BY item, window_start, window_end": "SESSION_START(bidtime, INTERVAL '5' "
        "MINUTES), item, SUM(price) FROM bid GROUP BY item, SESSION(bidtime, INTERVAL '5' MINUTES)"
    },
    "a batch insert": BATCH_OF_BIDS,
    "timestamps of Avro": {
        "TIMESTAMP_LTZ(3)": "TIMESTAMP(3)",
        "TO_TIMESTAMP_LTZ(1577872800000, 3)": "TIMESTAMP '2020-01-01 10:00:00'",
    },
}
"""What Flink 1.18 runs in place of them. It does not write by a schema that Spark has registered."""
NOT_TRANSLATED = {
    "a stream of changed rows": "changed is a table of changes, so its rows change",
    "another connector": "The connector 'print' is not translated",
    "OVER as a stream": "OVER of a stream has no equivalent in Spark",
    "an overwrite": "INSERT OVERWRITE: a stream only grows",
}
"""Names of cases without a translation to run, each with what the report says."""
INPUT = {
    EXAMPLE: """INSERT INTO bids VALUES
        ('C', 4.00, TIMESTAMP '2020-04-15 08:05:00'), ('A', 2.00, TIMESTAMP '2020-04-15 08:07:00'),
        ('C', 5.00, TIMESTAMP '2020-04-15 08:09:00'), ('D', 1.00, TIMESTAMP '2020-04-15 08:25:00');
    """,
    "a join with a table at rest": "INSERT INTO totals VALUES ('a', 1.5), ('b', 2.5), ('x', 3.5);\n",
}
"""Rows for a script, besides those that it writes itself."""
ADDRESS = "'controller-uri' = 'tcp://localhost:9090'"
CHECKPOINTS = "SET 'state.checkpoints.dir' = 'file:///data/checkpoints';"


def example() -> str:
    """Return the script of the page, for which Spark takes what there is."""
    page = (Path(__file__).parents[2] / "docs" / "flink.md").read_text()
    script = page.partition("```sql\n")[2].partition("```\n")[0]
    return change(script, {"'auction'": "'iot'", "SET 'execution.checkpointing.interval' = '10 s';": CHECKPOINTS})


# What a script drops at its end could not be compared.
SCRIPTS = {case.name: DECLARED + case.flink.partition("DROP TABLE")[0] for case in cases()} | {EXAMPLE: example()}


@pytest.fixture
def other_scope(client_config: ClientConfig, _sweeper: Sweeper) -> Iterator[str]:
    yield from _sweeper.scope(client_config)


def read(spark: SparkSession, scope: str, streams: Sequence[str]) -> dict[str, Counter[str]]:
    """Return the rows of each stream."""
    tables = {stream: spark.table(f"pravega.`{scope}`.{stream}") for stream in streams}
    return {stream: Counter(map(repr, table.collect())) for stream, table in tables.items()}


def has_as_many(streams: dict[str, Counter[str]], rows: dict[str, Counter[str]]) -> bool:
    return all(streams[stream].total() >= each.total() for stream, each in rows.items())


@pytest.mark.flink
@pytest.mark.parametrize(("name", "streams"), COMPARED.items(), ids=COMPARED)
def test_a_translated_script_writes_the_same_rows(
    spark: SparkSession,
    flink_jobs: Flink,
    cluster: ClusterInfo,
    scope: str,
    other_scope: str,
    tmp_path: Path,
    name: str,
    streams: list[str],
) -> None:
    script = change(SCRIPTS[name], {CHECKPOINTS: INPUT.get(name, "") + CHECKPOINTS})
    theirs = place(change(script, CHANGED.get(name, {})), cluster, scope, tmp_path / "theirs")
    run_by_spark(spark, declarations(theirs))
    run_by_spark(spark, place(script, cluster, other_scope, tmp_path / "ours"))
    rows = read(spark, other_scope, streams)
    assert all(rows.values())
    with running_in_flink(flink_jobs, theirs):
        wait_for(lambda: has_as_many(read(spark, scope, streams), rows))
    assert read(spark, scope, streams) == rows


@pytest.mark.flink
def test_stream_cuts_have_the_same_events_between_them(
    spark: SparkSession,
    flink_jobs: Flink,
    cluster: ClusterInfo,
    client_config: ClientConfig,
    scope: str,
    other_scope: str,
    tmp_path: Path,
) -> None:
    cuts = []
    with connect(client_config) as pravega:
        for number in range(3):
            for stream in ("a", "b"):
                table = f"pravega.`{scope}`.{stream}"
                properties = "TBLPROPERTIES ('format'='avro', 'framing'='none')"
                spark.sql(f"CREATE TABLE IF NOT EXISTS {table} (id INT) {properties}")
                spark.sql(f"INSERT INTO {table} VALUES ({number}), ({number})")
                cuts.append(measure_tail(pravega, Stream(scope, stream)).to_text())
    places = {"'scope' = 'iot', 'scan.streams' = 'a;b'": f"'scope' = '{scope}', 'scan.streams' = 'a;b', {ADDRESS}"}
    places |= {"'H4sIA;H4sIB'": f"'{cuts[0]};{cuts[1]}'", "'H4sIC;H4sID'": f"'{cuts[2]};{cuts[3]}'"}
    script = change(SCRIPTS[CUTS], places)
    run_by_spark(spark, place(script, cluster, other_scope, tmp_path / "ours"))
    rows = read(spark, other_scope, ["totals"])
    assert rows["totals"] == {"Row(item='x', total=1.0)": 4}
    theirs = place(script, cluster, scope, tmp_path / "theirs")
    run_by_spark(spark, declarations(theirs))
    with running_in_flink(flink_jobs, theirs):
        wait_for(lambda: has_as_many(read(spark, scope, ["totals"]), rows))
    assert read(spark, scope, ["totals"]) == rows


@pytest.mark.flink
@pytest.mark.parametrize(("name", "error"), REFUSED_BY_FLINK.items(), ids=REFUSED_BY_FLINK)
def test_flink_refuses_a_script(
    spark: SparkSession, flink_jobs: Flink, cluster: ClusterInfo, scope: str, tmp_path: Path, name: str, error: str
) -> None:
    script = place(SCRIPTS[name], cluster, scope, tmp_path)
    run_by_spark(spark, declarations(script))
    with pytest.raises(JavaError, match=error), running_in_flink(flink_jobs, script):
        pass


@pytest.mark.parametrize(("name", "reason"), NOT_TRANSLATED.items(), ids=NOT_TRANSLATED)
def test_the_report_says_why_a_script_is_not_translated(name: str, reason: str) -> None:
    [case] = [case for case in cases() if case.name == name]
    assert f"-- NOT TRANSLATED: {reason}" in case.spark


def test_every_case_with_an_insert_is_compared_or_has_its_reason() -> None:
    writing = {case.name for case in cases() if "INSERT " in case.flink}
    assert COMPARED.keys() | REFUSED_BY_FLINK.keys() | NOT_TRANSLATED.keys() == writing - {CUTS} | {EXAMPLE}
    assert COMPARED.keys() & REFUSED_BY_FLINK.keys() == CHANGED.keys() - {EXAMPLE}
