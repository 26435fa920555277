"""Savepoints: a query goes back to one and on from there, whatever it or others have written since."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from pyspark_pravega.catalog.procedures.procedure import Call, DriverWork
from pyspark_pravega.catalog.procedures.savepoints import create_savepoint
from pyspark_pravega.catalog.protocol.service_replies import DriverStep
from pyspark_pravega.catalog.running.tending import QueryServers
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.client import Pravega
from pyspark_pravega.errors import UnsupportedOperationError
from pyspark_pravega.local.state import ClusterInfo
from tests.catalog.storage.test_secrets import catalog_of


class Warming:
    """A table of readings, and a query that writes some of them to another table and notes its checkpoint."""

    def __init__(self, spark: SparkSession, namespace: str, directory: Path) -> None:
        self.spark, self.namespace, self.directory = spark, namespace, directory
        self.checkpoint, self.savepoint = str(directory / "checkpoint"), str(directory / "savepoints/first")
        spark.sql(f"CREATE NAMESPACE pravega.{namespace}")
        for table in ("heat", "warm"):
            spark.sql(f"CREATE TABLE pravega.{namespace}.{table} (id INT, celsius DOUBLE) USING pravega")

    def measure(self, *ids: int) -> None:
        """Add readings: each id has so many degrees."""
        self.spark.sql(f"INSERT INTO pravega.{self.namespace}.heat VALUES " + ", ".join(f"({i}, {i})" for i in ids))

    def run(self, least: int, into: str = "warm", checkpoint: str | None = None, **options: str) -> None:
        """Run a version of the query to its end: that which keeps the ids from one on."""
        rows: DataFrame = self.spark.readStream.table(f"pravega.{self.namespace}.heat").where(f"id >= {least}")
        writer = rows.writeStream.option("checkpointLocation", checkpoint or self.checkpoint).options(**options)
        writer.trigger(availableNow=True).toTable(f"pravega.{self.namespace}.{into}").awaitTermination()

    def written(self, table: str = "warm") -> list[int]:
        return sorted(row.id for row in self.spark.table(f"pravega.{self.namespace}.{table}").collect())

    def call(self, procedure: str, **arguments: str) -> list[Row]:
        listed = ", ".join(f"{name} => '{text}'" for name, text in arguments.items())
        return self.spark.sql(f"CALL pravega.system.{procedure}({listed})").collect()

    def save(self, **arguments: str) -> Row:
        into = f"{self.namespace}.warm"
        [row] = self.call(
            "create_savepoint",
            **{"savepoint": self.savepoint, "checkpoint": self.checkpoint, "into": into, **arguments},
        )
        return row

    def save_and_go_on(self) -> Row:
        """Write the row 5, make a savepoint, and write 2 and 6 by another version of the query."""
        self.measure(1, 5)
        self.run(3)
        saved = self.save()
        self.measure(2, 6)
        self.run(2)
        return saved

    def restore(self, **arguments: str) -> Row:
        [row] = self.call("restore_savepoint", **{"savepoint": self.savepoint, **arguments})
        return row

    def refused(self, act: Callable[..., object], **arguments: str) -> str:
        with pytest.raises(PySparkException) as raised:
            act(**arguments)
        return str(raised.value)


@pytest.fixture
def warming(spark: SparkSession, fresh_name: str, tmp_path: Path) -> Warming:
    return Warming(spark, fresh_name, tmp_path)


def test_a_query_goes_on_from_a_savepoint_in_its_own_table(warming: Warming) -> None:
    """Whatever became of its checkpoint, and as often as it is put back, each row is there once."""
    warming.measure(1, 5)
    warming.run(3)
    saved = warming.save()
    assert (saved.savepoint, saved.batch, saved.into) == (warming.savepoint, 0, f"{warming.namespace}.warm")
    assert saved.version == 1 and saved.checkpoint == warming.checkpoint
    restored = warming.restore()
    assert (restored.query, restored.batch, restored.conflict) == (saved.query, 0, None)
    assert (restored.checkpoint, restored.rows_since) == (warming.checkpoint, 0)
    assert Path(restored.replaced, "metadata").exists()
    shutil.rmtree(warming.checkpoint)
    assert warming.restore().replaced is None
    warming.measure(6)
    warming.run(3)
    assert warming.written() == [5, 6]


def test_an_upgrade_and_the_way_back_to_another_table(warming: Warming) -> None:
    """It begins with the rows of the savepoint, and counts the query's micro-batches as its own."""
    saved = warming.save_and_go_on()
    assert warming.written() == [2, 5, 6]
    for again in ("again", "once_more"):
        name = f"pravega.{warming.namespace}.{again}"
        warming.spark.sql(f"CREATE TABLE {name} (id INT, celsius DOUBLE) USING pravega")
        warming.spark.sql(
            f"INSERT INTO {name} SELECT * FROM pravega.{saved['into']} VERSION AS OF '{saved.stream_cut}'"
        )
        restored = warming.restore(into=f"{warming.namespace}.{again}")
        assert (restored.conflict, restored.rows_since) == (None, 0)
        warming.run(3, again)
        assert warming.written(again) == [5, 6]
    refusal = warming.refused(warming.restore, into=f"{warming.namespace}.again")
    assert f"Stream {warming.namespace}/again was written to since the savepoint" in refusal
    assert f"by query {saved.query} (up to micro-batch 1)." in refusal


def test_what_was_written_since_is_fenced_or_doubled_by_name(warming: Warming) -> None:
    saved = warming.save_and_go_on()
    refusal = warming.refused(warming.restore)
    assert "PRAVEGA_QUERY_FENCED" in refusal and f"query {saved.query} (up to micro-batch 1)" in refusal
    first = f"SELECT * FROM pravega.{warming.namespace}.warm VERSION AS OF '{saved.stream_cut}'"
    assert first in refusal and "on_conflict => 'rewind'" in refusal
    assert warming.spark.sql(first).collect() == [Row(id=5, celsius=5.0)]
    assert "'on_conflict' => 'skip' is not valid" in warming.refused(warming.restore, on_conflict="skip")
    assert not list(Path(warming.directory).glob("checkpoint.*"))
    restored = warming.restore(on_conflict="REWIND")
    assert (restored.conflict, restored.rows_since) == (f"query {saved.query} (up to micro-batch 1)", 2)
    warming.run(3)
    assert warming.written() == [2, 5, 6, 6]
    warming.measure(7)
    warming.run(2, checkpoint=restored.replaced)
    with pytest.raises(StreamingQueryException, match="PRAVEGA_QUERY_FENCED"):
        warming.run(3)  # a second run of the query, which has taken its place since
    assert warming.written() == [2, 5, 6, 6, 7]


def test_another_query_that_took_its_place_is_a_conflict(warming: Warming) -> None:
    """As with a new checkpoint, because the second version groups by other columns."""
    warming.measure(5)
    warming.run(3)
    warming.save()
    other = str(warming.directory / "other")
    warming.measure(6)
    warming.run(6, checkpoint=other)
    id = json.loads(Path(other, "metadata").read_text())["id"]
    assert (
        f"written to since the savepoint {warming.savepoint} by query {id} (up to micro-batch 0)."
        in warming.refused(warming.restore)
    )
    query = json.loads(Path(warming.checkpoint, "metadata").read_text())["id"]
    refusal = warming.refused(warming.restore, checkpoint=other, on_conflict="rewind")
    assert f"is that of another query. Name the checkpoint of query {query}" in refusal
    assert Path(other, "metadata").exists() and not list(warming.directory.glob("*.until-*"))


def test_a_checkpoint_that_is_none_is_left_where_it_is(warming: Warming) -> None:
    """A directory of other files, one that is empty, and what lies in the savepoint itself."""
    warming.measure(5)
    warming.run(3)
    warming.save()
    parent, inside, empty = str(warming.directory), f"{warming.savepoint}/checkpoint", warming.directory / "empty"
    assert f"'checkpoint' => '{parent}' is no checkpoint" in warming.refused(warming.restore, checkpoint=parent)
    assert "is that of a savepoint" in warming.refused(warming.restore, checkpoint=inside)
    assert "is no checkpoint" in warming.refused(warming.restore, checkpoint=warming.savepoint)
    within = warming.refused(warming.save, savepoint=f"{warming.checkpoint}/savepoint")
    assert f"cannot copy {warming.checkpoint}: " in within
    empty.mkdir()
    assert f"cannot be renamed to {empty}, which must not exist" in warming.refused(
        warming.restore, checkpoint=str(empty)
    )
    assert list(empty.iterdir()) == []
    assert warming.restore().conflict is None
    Path(warming.checkpoint, ".metadata.crc").unlink()  # the checksum of the local file system
    Path(warming.checkpoint, "metadata").write_text("[]")
    assert "is no checkpoint" in warming.refused(warming.save, savepoint=f"{warming.savepoint}-2")


def test_a_checkpoint_that_cannot_be_replaced_is_named(warming: Warming) -> None:
    """Something takes its place between the two renames, as often as it takes to be quick enough."""
    warming.measure(5)
    warming.run(3)
    warming.save()
    checkpoint, ended = Path(warming.checkpoint), threading.Event()

    def take_its_place() -> None:
        while not ended.is_set():
            with suppress(FileExistsError):
                checkpoint.mkdir()

    thread = threading.Thread(target=take_its_place)
    thread.start()
    try:
        refusal = warming.refused(lambda: [warming.restore() for _ in range(100)])
    finally:
        ended.set()
        thread.join()
    assert f"cannot be renamed to {checkpoint}, which must not exist" in refusal
    [replaced] = re.findall(rf"cannot move ({checkpoint}\.until-\d+)", refusal)
    assert Path(replaced, "metadata").exists() and list(checkpoint.iterdir()) == []


def test_a_restore_that_was_cut_off_between_its_two_moves(warming: Warming) -> None:
    """A start would read everything again under a new id, so it is refused until the call is repeated."""
    warming.measure(5)
    warming.run(3)
    warming.save()
    checkpoint, earlier = Path(warming.checkpoint), Path(f"{warming.checkpoint}.until-8")
    earlier.mkdir()  # of a call that has ended
    moved, copy = Path(f"{checkpoint}.until-9"), Path(f"{checkpoint}.new-9")
    shutil.copytree(f"{warming.savepoint}/checkpoint", copy)
    checkpoint.rename(moved)
    refusal = warming.refused(lambda: warming.run(3))
    assert f"{checkpoint} has no query, because a call of restore_savepoint was cut off" in refusal
    assert f"rename file:{moved} to it to go on without the savepoint" in refusal and f"delete file:{copy}." in refusal
    assert not checkpoint.exists()
    moved.rename(checkpoint)
    warming.measure(6)
    warming.run(3)
    checkpoint.rename(moved)
    restored = warming.restore(on_conflict="rewind")
    assert restored.replaced == str(moved) and restored.conflict is not None
    warming.run(3)
    assert warming.written() == [5, 6, 6]


def test_a_query_without_transactions_may_double(warming: Warming) -> None:
    """Its rows leave no trace in the ledger, so that any rows are a conflict."""
    for id in (5, 6):
        warming.measure(id)
        warming.run(3, **{"write-mode": "at-least-once"})
        if id == 5:
            assert warming.save().batch is None
            assert warming.restore().conflict is None
    assert "a writer that leaves no trace in the ledger" in warming.refused(warming.restore)
    assert warming.restore(on_conflict="rewind").rows_since == 0  # no transaction wrote the row 6
    warming.run(3, **{"write-mode": "at-least-once"})
    assert warming.written() == [5, 6, 6]


def test_rows_beside_the_transactions_of_a_query_may_double(warming: Warming) -> None:
    """Those of other INSERTs cannot, as transactions that the query did not write."""
    warming.measure(5)
    warming.run(3)
    warming.save()
    table = f"pravega.{warming.namespace}.warm"
    warming.spark.sql(f"INSERT INTO {table} VALUES (7, 7)")
    assert (warming.restore().conflict, warming.restore().rows_since) == (None, 1)
    warming.measure(6)
    warming.run(3, **{"write-mode": "at-least-once"})
    assert warming.written() == [5, 6, 7]
    assert "by a writer that leaves no trace in the ledger" in warming.refused(warming.restore)
    warming.spark.sql(f"INSERT INTO {table} VALUES (8, 8)")
    assert "by a writer that leaves no trace in the ledger" in warming.refused(warming.restore)


def test_a_table_that_forgot_a_query_is_no_conflict(warming: Warming) -> None:
    warming.measure(5)
    warming.run(3)
    saved = warming.save()
    arguments = f"'{warming.namespace}.warm', query => '{saved.query}', batch => {saved.batch}"
    warming.spark.sql(f"CALL pravega.system.reset_query({arguments})")
    assert warming.restore().conflict is None
    warming.measure(6)
    warming.run(3)
    assert warming.written() == [5, 6]


def test_a_micro_batch_that_the_checkpoint_has_not_completed(warming: Warming) -> None:
    """The table has it: in either table it is not written twice."""
    warming.measure(5)
    warming.run(3)
    for left in Path(warming.checkpoint, "commits").iterdir():
        left.unlink()
    saved = warming.save()
    warming.spark.sql(
        f"CREATE TABLE pravega.{warming.namespace}.again USING pravega AS "
        f"SELECT * FROM pravega.{saved['into']} VERSION AS OF {saved.version}"
    )
    for into in ("warm", "again"):
        warming.restore(into=f"{warming.namespace}.{into}")
        warming.measure(6)
        warming.run(3, into)
    assert warming.written() == [5, 6] and warming.written("again") == [5, 6, 6]


def test_savepoints_are_listed_once_they_are_whole(warming: Warming) -> None:
    warming.measure(5)
    warming.run(3)
    directory = str(warming.directory / "savepoints")
    first = warming.save(savepoint=f"{directory}/z")
    second = warming.save(savepoint=f"{directory}/a")
    third = Path(warming.save(savepoint=f"{directory}/half")["savepoint"])
    (third / "savepoint.json").unlink()
    assert warming.call("list_savepoints", directory=directory) == [first, second]
    assert "is no savepoint, because it has no savepoint.json" in warming.refused(warming.restore, savepoint=str(third))
    assert "savepoint that was not finished" in warming.refused(warming.save, savepoint=str(third))
    (third / "savepoint.json").write_text("{}")
    assert warming.call("list_savepoints", directory=directory) == [first, second]
    (third / ".savepoint.json.crc").unlink()  # the checksum of the local file system
    whole = json.loads(Path(first.savepoint, "savepoint.json").read_text())
    for damage in (
        "no JSON",
        "{}",
        json.dumps({**whole, "ledger": {"query": "{}"}}),
        json.dumps({**whole, "stream_cut": "x"}),
        json.dumps({**whole, "identity": "iot/copy/0@"}),
    ):
        (third / "savepoint.json").write_text(damage)
        assert f"{third}/savepoint.json is damaged" in warming.refused(warming.restore, savepoint=str(third))
        assert warming.call("list_savepoints", directory=directory) == [first, second]
    assert warming.call("list_savepoints", directory=str(warming.directory / "nowhere")) == []


def test_a_table_that_was_made_again_is_refused(warming: Warming) -> None:
    """It may be longer than the one of the savepoint was."""
    warming.save_and_go_on()
    warm = f"pravega.{warming.namespace}.warm"
    warming.spark.sql(f"DROP TABLE {warm}")
    warming.spark.sql(f"CREATE TABLE {warm} (id INT, celsius DOUBLE) USING pravega")
    for ids in (0, 200):
        warming.spark.sql(f"INSERT INTO {warm} SELECT CAST(id AS INT), id FROM range({ids})")
        for arguments in ({}, {"on_conflict": "rewind"}):
            refusal = warming.refused(warming.restore, **arguments)
            assert f"Stream {warming.namespace}/warm was dropped and created again since" in refusal
    warming.spark.sql(f"CREATE TABLE pravega.{warming.namespace}.other LIKE {warm}")
    warming.restore(into=f"{warming.namespace}.other")


def test_names_that_are_wrong(warming: Warming) -> None:
    warming.measure(5)
    warming.run(3)
    nowhere = str(warming.directory / "nowhere")
    assert f"'checkpoint' => '{nowhere}' is no checkpoint" in warming.refused(warming.save, checkpoint=nowhere)
    assert "There is no table" in warming.refused(warming.save, into=f"{warming.namespace}.wamr")
    assert "'savepoint' => 'first' is not an absolute path" in warming.refused(warming.save, savepoint="first")
    for password in ("secret", "sec/ret"):
        assert "has a password" in warming.refused(warming.save, savepoint=f"s3a://me:{password}@bucket/first")
    unknown = warming.refused(warming.save, savepoint="nofs://bucket/first")
    assert "The driver cannot list nofs://bucket/first: No FileSystem for scheme" in unknown
    assert f"'savepoint' => '{nowhere}' is no savepoint" in warming.refused(warming.restore, savepoint=nowhere)


def test_a_query_that_runs_is_refused(warming: Warming) -> None:
    warming.measure(5)
    warming.run(3)
    warming.save()
    rows = warming.spark.readStream.table(f"pravega.{warming.namespace}.heat")
    query = rows.writeStream.option("checkpointLocation", warming.checkpoint).toTable(
        f"pravega.{warming.namespace}.warm"
    )
    try:
        for refusal in (
            warming.refused(warming.save, savepoint=f"{warming.savepoint}-2"),
            warming.refused(warming.restore),
        ):
            assert f"cannot claim {query.id}: it is running" in refusal
    finally:
        query.stop()
    assert warming.restore().conflict is None


def take_elsewhere(step: DriverStep) -> str:
    """Take a step as another driver does, in which the query does not run."""
    path = Path(step.subject)
    match step.kind:
        case "list":
            return "\n".join(sorted(each.name for each in path.iterdir())) if path.exists() else ""
        case "read":
            return path.read_text()
        case "copy":
            shutil.copytree(path, step.text)
        case "write":
            path.write_text(step.text)
    return ""


def test_a_micro_batch_after_the_copy_leaves_no_savepoint(warming: Warming, pravega: Pravega) -> None:
    """Another driver runs the query; the copy of its checkpoint is older than what the table then has."""
    warming.measure(5)
    warming.run(3)
    into = f"{warming.namespace}.warm"
    arguments = {"savepoint": warming.savepoint, "checkpoint": warming.checkpoint, "into": into}
    steps = []
    with pytest.raises(UnsupportedOperationError, match="runs, or its driver died in a micro-batch"):
        for work in create_savepoint.act(Call(Catalog({}, pravega), arguments, QueryServers())):
            assert isinstance(work, DriverWork)
            work.answers = tuple(map(take_elsewhere, work.steps))
            steps += [step.kind for step in work.steps]
            if "copy" in steps:
                warming.measure(6)
                warming.run(3)
    assert steps == ["list", "read", "claim", "copy"]
    assert warming.call("list_savepoints", directory=str(warming.directory / "savepoints")) == []
    assert warming.save(savepoint=f"{warming.savepoint}-2").batch == 1
    assert warming.written() == [5, 6]


def test_a_savepoint_that_lacks_files_changes_nothing(warming: Warming) -> None:
    """As after a copy to another place that was cut off."""
    warming.measure(5)
    warming.run(3)
    warming.save()
    offsets = Path(warming.savepoint, "checkpoint/offsets/0")
    text = offsets.read_bytes()
    offsets.with_name(".0.crc").unlink()  # the checksum of the local file system
    for left in (None, text[:10]):
        offsets.unlink(missing_ok=True)
        if left is not None:
            offsets.write_bytes(left)
        refusal = warming.refused(warming.restore)
        assert f"The savepoint {warming.savepoint} is not whole: its checkpoint has " in refusal
        assert re.search(rf"{warming.checkpoint}\.new-\d+ can be deleted", refusal)
        assert Path(warming.checkpoint, "offsets/0").read_bytes() == text
        assert not list(warming.directory.glob("checkpoint.until-*"))
    offsets.write_bytes(text)
    assert warming.restore().conflict is None
    warming.measure(6)
    warming.run(3)
    assert warming.written() == [5, 6]


def test_who_may_not_write_the_ledger_moves_nothing(
    secure_spark: SparkSession, secure_cluster: ClusterInfo, secure_scope: str, tmp_path: Path
) -> None:
    """`appender` may write the table, but only read the ledger, and `reader` may write neither."""
    source, target = f"secure.`{secure_scope}`.source", f"secure.`{secure_scope}`.target"
    for table in (source, target):
        secure_spark.sql(f"CREATE TABLE {table} (a INT) USING pravega")
    secure_spark.sql(f"INSERT INTO {source} VALUES (1), (2)")
    checkpoint = tmp_path / "checkpoint"
    writer = secure_spark.readStream.table(source).writeStream.option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).toTable(target).awaitTermination()

    def call(user: str, procedure: str, **more: str) -> list[Row]:
        name = catalog_of(secure_spark, secure_cluster, user, user, secure_cluster.users[user])
        arguments = {"savepoint": str(tmp_path / "savepoint"), **more}
        listed = ", ".join(f"{key} => '{text}'" for key, text in arguments.items())
        return secure_spark.sql(f"CALL `{name}`.system.{procedure}({listed})").collect()

    saving = {"checkpoint": str(checkpoint), "into": f"`{secure_scope}`.target"}
    with pytest.raises(PySparkException, match="PRAVEGA_PERMISSION_DENIED.*READ_UPDATE.*target"):
        call("reader", "create_savepoint", **saving)
    assert not (tmp_path / "savepoint").exists()
    call("sink", "create_savepoint", **saving)
    files = sorted(tmp_path.iterdir())
    for user, lacks in (("appender", "pyspark-pravega-commits"), ("reader", "target")):
        with pytest.raises(PySparkException, match=f"PRAVEGA_PERMISSION_DENIED.*READ_UPDATE.*{lacks}"):
            call(user, "restore_savepoint")
        assert sorted(tmp_path.iterdir()) == files
    [restored] = call("sink", "restore_savepoint")
    assert (restored.conflict, restored.rows_since) == (None, 0)
