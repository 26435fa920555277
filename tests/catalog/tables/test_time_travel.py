"""VERSION AS OF and TIMESTAMP AS OF: versions, tags and stream cuts, and what is not there any more."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.event_frames import frame
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.positions import points_in_time
from pyspark_pravega.datasource.positions.points_in_time import create_tag
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from pyspark_pravega.datasource.positions.tags import Tags
from pyspark_pravega.errors import InvalidOptionError, StreamNotFoundError
from tests.catalog.tables.test_debezium import create_stream, declare, write
from tests.debezium import records, tables


@pytest.fixture
def stream(scope: str) -> Stream:
    return Stream(scope, "plain")


@pytest.fixture
def table(spark: SparkSession, stream: Stream) -> str:
    """A table of three versions: the row 1, the row 2, the rows 3 and 4."""
    name = f"pravega.`{stream.scope}`.{stream.name}"
    spark.sql(
        f"CREATE TABLE {name} (a INT) TBLPROPERTIES ('format'='json', 'framing'='none', 'scaling.min-segments'='2')"
    )
    for values in ("(1)", "(2)", "(3), (4)"):
        spark.sql(f"INSERT INTO {name} VALUES {values}")
    return name


def values(spark: SparkSession, source: str) -> list[int]:
    return sorted(row.a for row in spark.sql(f"SELECT a FROM {source}").collect())


def append(pravega: Pravega, stream: Stream, event: bytes) -> None:
    """Append an event as other writers do."""
    segment = pravega.controller.current_segments(stream)[0].segment_id
    with SegmentAppender(pravega.segments, stream, segment, uuid.uuid4()) as appender:
        appender.append(frame(pa.array([event])), 1)
        appender.flush()


def test_versions_tags_cuts_and_times(spark: SparkSession, pravega: Pravega, stream: Stream, table: str) -> None:
    first, second, third = CommitLog(pravega, stream).versions()
    create_tag(pravega, stream, "release-1.0", "2")
    for asked in ("VERSION AS OF 2", "VERSION AS OF '2'", "VERSION AS OF 'release-1.0'"):
        assert values(spark, f"{table} {asked}") == [1, 2]
    assert values(spark, f"{table} VERSION AS OF '{first.cut.to_text()}'") == [1]
    pravega.controller.scale_stream(stream, [0], [(0.0, 0.25), (0.25, 0.5)])
    spark.sql(f"INSERT INTO {table} VALUES (5)")
    assert values(spark, f"{table} VERSION AS OF 3") == [1, 2, 3, 4]
    assert values(spark, f"{table} FOR SYSTEM_VERSION AS OF 4") == [1, 2, 3, 4, 5]
    for version, before, wanted in ((second, [1], [1, 2]), (third, [1, 2], [1, 2, 3, 4])):
        at = datetime.fromtimestamp(version.timestamp / 1e6, UTC)
        assert values(spark, f"{table} TIMESTAMP AS OF '{at:%Y-%m-%d %H:%M:%S.%f}'") == wanted
        at -= timedelta(microseconds=1)
        assert values(spark, f"{table} TIMESTAMP AS OF '{at:%Y-%m-%d %H:%M:%S.%f}'") == before
    joined = f"SELECT count(*) FROM {table} n LEFT ANTI JOIN {table} VERSION AS OF 2 o ON n.a = o.a"
    assert spark.sql(joined).first()[0] == 3
    assert spark.sql(f"SELECT max(a) FROM {table} VERSION AS OF 3 WHERE a < 4").first() == (3,)
    assert [row.a for row in spark.read.option("versionAsOf", 1).table(table).collect()] == [1]
    assert spark.read.option("timestampAsOf", datetime.now(UTC).isoformat()).table(table).count() == 5
    assert values(spark, f"{table} VERSION AS OF 3 WITH ('start-version'='2')") == [2, 3, 4]


def test_what_others_append_is_in_no_version_before_the_next(
    spark: SparkSession, pravega: Pravega, stream: Stream, table: str
) -> None:
    append(pravega, stream, b'{"a":9}')
    assert values(spark, f"{table} TIMESTAMP AS OF current_timestamp()") == [1, 2, 3, 4]
    create_tag(pravega, stream, "now")
    assert values(spark, f"{table} VERSION AS OF 'now'") == [1, 2, 3, 4, 9]
    assert [(tag.name, tag.version) for tag in Tags(pravega, stream).all()] == [("now", None)]


def test_streams_of_other_writers(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    stream = Stream(scope, "theirs")
    create_stream(pravega, stream, 1)
    append(pravega, stream, b"one")
    create_tag(pravega, stream, "first")
    append(pravega, stream, b"two")
    name = f"pravega.`{scope}`.theirs"
    assert [bytes(row.event) for row in spark.sql(f"SELECT * FROM {name} VERSION AS OF 'first'").collect()] == [b"one"]
    for asked in ("VERSION AS OF 1", "TIMESTAMP AS OF '2026-01-01'", "VERSION AS OF 'frist'"):
        with pytest.raises(PySparkException, match="PRAVEGA_INVALID_OPTION") as caught:
            spark.sql(f"SELECT * FROM {name} {asked}")
        assert "tag" in str(caught.value)
    assert "'first' (20" in str(caught.value)
    assert "Did you mean 'first'?" in str(caught.value)
    with pytest.raises(PySparkException, match="is a cut of stream"):
        other = measure_tail(pravega, stream).to_text()
        spark.sql(f"CREATE TABLE pravega.`{scope}`.other (a INT)")
        spark.sql(f"SELECT * FROM pravega.`{scope}`.other VERSION AS OF '{other}'").collect()


def test_what_was_truncated_is_refused(spark: SparkSession, pravega: Pravega, stream: Stream, table: str) -> None:
    _, second, _ = CommitLog(pravega, stream).versions()
    pravega.controller.truncate_stream(second.cut)
    for asked in ("VERSION AS OF 1", "VERSION AS OF 2"):
        with pytest.raises(PySparkException, match="PRAVEGA_DATA_LOSS.*VERSION AS OF.*removed"):
            spark.sql(f"SELECT * FROM {table} {asked}").collect()
        assert values(spark, f"{table} {asked} WITH ('fail-on-data-loss'='false')") == []
    assert values(spark, f"{table} VERSION AS OF 3") == [3, 4]  # what is left of it


def test_tables_of_changes(spark: SparkSession, pravega: Pravega, scope: str) -> None:
    """Their current rows as they were at a tag; so is their changelog."""
    table = tables()["customers"]
    stream = Stream(scope, table.topic)
    create_stream(pravega, stream, 1)
    events = records()[table.topic]
    write(pravega, stream, events[:5])
    shown = declare(spark, stream, table)
    before = sorted(map(str, spark.sql(f"SELECT * FROM {shown}").collect()))
    create_tag(pravega, stream, "early")
    write(pravega, stream, events[5:])
    assert sorted(map(str, spark.sql(f"SELECT * FROM {shown} VERSION AS OF 'early'").collect())) == before
    assert sorted(map(str, spark.sql(f"SELECT * FROM {shown}").collect())) != before
    assert spark.sql(f"SELECT * FROM {shown}.changelog VERSION AS OF 'early'").count() == 5


def test_a_tag_of_a_stream_that_is_made_again_meanwhile(
    pravega: Pravega, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tag of the old stream is gone; those of the new stream stay."""
    create_stream(pravega, stream, 1)
    find = points_in_time.find_end_now

    def made_again(*arguments: Any) -> points_in_time.Point:
        point = find(*arguments)
        pravega.controller.seal_stream(stream)
        pravega.controller.delete_stream(stream)
        create_stream(pravega, stream, 1)
        return point

    def tagged(*arguments: Any) -> points_in_time.Point:
        point = made_again(*arguments)
        with monkeypatch.context() as patched:
            patched.setattr(points_in_time, "find_end_now", find)
            create_tag(pravega, stream, "new")
        return point

    monkeypatch.setattr(points_in_time, "find_end_now", made_again)
    create_tag(pravega, stream, "old")
    assert Tags(pravega, stream).all() == []
    monkeypatch.setattr(points_in_time, "find_end_now", tagged)
    with pytest.raises(StreamNotFoundError, match="another one made under its name"):
        create_tag(pravega, stream, "old")
    assert [tag.name for tag in Tags(pravega, stream).all()] == ["new"]


def test_tags_end_with_their_table(
    spark: SparkSession, pravega: Pravega, stream: Stream, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags = Tags(pravega, stream)
    create_tag(pravega, stream, "a", "1")
    create_tag(pravega, stream, "b")
    with pytest.raises(Exception, match="has a tag 'a' already"):
        create_tag(pravega, stream, "a")
    create_tag(pravega, stream, "a", "b", replace=True)
    assert [(tag.name, tag.version) for tag in tags.all()] == [("b", 3), ("a", 3)]
    with monkeypatch.context() as small, pytest.raises(InvalidOptionError, match="has 2 tags, and no room for more"):
        small.setattr("pyspark_pravega.datasource.positions.tags.MAX_VALUE_BYTES", 100)
        create_tag(pravega, stream, "a", "b", replace=True)
    assert tags.drop("b")
    assert not tags.drop("b")
    for name in ("", "12", "x" * 129, "a b", "-a", "tail"):
        with pytest.raises(Exception, match="cannot be a tag"):
            create_tag(pravega, stream, name)
    spark.sql(f"DROP TABLE {table}")
    spark.sql(f"CREATE TABLE {table} (a INT)")
    assert Tags(pravega, stream).all() == []
