"""The points at which the fault matrix harms: functions of the package."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    """Before or after a function, in the catalog service or in a worker of tasks.

    `place` is `<module>:<function or class.method>:<before or after>`, below `pyspark_pravega`.
    """

    name: str
    process: str
    place: str

    def text(self) -> str:
        """Return it as `sitecustomize` reads it."""
        return f"{self.name}=pyspark_pravega.{self.place}"


POINTS = (
    # In the order of a micro-batch from table to table.
    Point("look", "service", "datasource.stream_source.batch_planning:TableStream.end:after"),
    Point("plan", "service", "datasource.stream_source.batch_planning:TableStream.slices:after"),
    Point("begin", "service", "client.transaction:Transaction.begin:before"),
    Point("begun", "service", "client.transaction:Transaction.begin:after"),
    Point("read", "worker", "client.segments.range_reader:SegmentRangeReader.__init__:after"),
    Point("encoded", "worker", "datasource.insert.task_output:TaskOutput.finish:before"),
    Point("append", "worker", "client.segments.append:SegmentAppender.append:after"),
    Point("appended", "worker", "client.segments.append:SegmentAppender.flush:after"),
    Point("ledger", "service", "datasource.commit_log.log_table:LogTable.read_companion:after"),
    Point("seal", "service", "client.segments.store:SegmentStore.seal_segments:before"),
    Point("sealed", "service", "client.segments.store:SegmentStore.seal_segments:after"),
    Point("claim", "service", "datasource.commit_log.commit_log:CommitLog.enter:before"),
    Point("claimed", "service", "datasource.commit_log.commit_log:CommitLog.enter:after"),
    Point("turn", "service", "datasource.commit_log.commit_log:CommitLog.wait_for_turn:after"),
    Point("commit", "service", "client.transaction:Transaction.commit:before"),
    Point("committed", "service", "client.transaction:Transaction.commit:after"),
    Point("publish", "service", "datasource.commit_log.commit_log:CommitLog.publish:before"),
    Point("published", "service", "datasource.commit_log.commit_log:CommitLog.publish:after"),
)

OTHER_POINTS = (
    # Of other queries: streams of changes, rows that are written without transactions, real-time mode.
    Point("changes", "service", "datasource.changes.appended:plan_new_appended:after"),
    Point("plain", "worker", "datasource.insert.plain_task:_CurrentSegments.append:after"),
    Point("stored", "worker", "datasource.insert.plain_task:_CurrentSegments.flush:after"),
    Point("follow", "worker", "datasource.scan.slice_decoder:SliceDecoder.batches:before"),
)

POINTS_OF_LARGE_TASKS = (
    # Between two blocks of a task that outgrows its memory, and in the copy of what the winners of such tasks wrote.
    Point("block", "worker", "datasource.insert.blocks:BlockSender.send:after"),
    Point("sent", "worker", "datasource.insert.blocks:BlockSender._append:after"),
    Point("mixed", "service", "datasource.insert.sealing:_Copying.copy:before"),
    Point("copied", "service", "datasource.insert.sealing:_Copying.copy:after"),
)

POINTS_OF_STATEMENTS = (
    # Of UPDATE, DELETE and MERGE on tables of changes, at their turn.
    Point("check", "service", "datasource.changes.conflicts:check_conflicts:before"),
    Point("checked", "service", "datasource.changes.conflicts:check_conflicts:after"),
)
