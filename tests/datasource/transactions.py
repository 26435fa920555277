"""Transactions that put equal bytes into every segment of a stream, so that any part of one shows in the lengths."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.commit_log.log_table import TABLE_NAME, CommitEntry, HeadRow, Write
from pyspark_pravega.datasource.insert.commit import WriteSettings
from pyspark_pravega.datasource.insert.insert import Insert
from pyspark_pravega.datasource.insert.reports import InsertMessage
from pyspark_pravega.datasource.insert.task import InsertWriter
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from pyspark_pravega.datasource.tables.stream_table import RAW_SCHEMA, StreamTable

SETTINGS = WriteSettings(lease=30.0, commit_timeout=60.0, spool_memory=1 << 20)
PAYLOAD_BYTES = 24
EVENT_BYTES = 8 + PAYLOAD_BYTES
_IN_ONE_STEP = 250


def raw_table(stream: Stream) -> StreamTable:
    """The table of a stream without a schema."""
    return StreamTable(stream, "raw", "none", RAW_SCHEMA)


def list_committing(log: CommitLog) -> tuple[uuid.UUID, ...]:
    """The transactions in the queue of a commit log."""
    head = log.head()
    return () if head is None else head.committing


def begin_insert(
    pravega: Pravega, stream: Stream, payloads: Sequence[bytes], settings: WriteSettings = SETTINGS
) -> tuple[Insert, list[InsertMessage]]:
    """An INSERT whose one task has written its rows: all is ready for the commit."""
    insert = Insert.begin(pravega, raw_table(stream), settings)
    batch = pa.record_batch([pa.array(payloads, pa.binary())], names=["event"])
    report = InsertWriter(insert.spec(RAW_SCHEMA)).write(iter([batch]))
    assert isinstance(report, InsertMessage)
    return insert, [report]


def insert_into_all(pravega: Pravega, stream: Stream, segments: int, text: str = "", rows: int = 1) -> None:
    """INSERT as many events as there are `rows` into each segment."""
    insert, messages = begin_insert(pravega, stream, [text.encode().ljust(PAYLOAD_BYTES)] * segments * rows)
    assert sorted(written.events for written in messages[0].segments.values()) == [rows] * segments
    assert insert.commit(messages) == segments * rows


def insert_many(config: ClientConfig, stream: Stream, segments: int, times: int) -> int:
    """INSERT again and again; to run in a process of its own."""
    with connect(config) as pravega:
        for time in range(times):
            insert_into_all(pravega, stream, segments, f"{os.getpid()} {time}")
    return times


def die_in_commit(config: ClientConfig, stream: Stream, segments: int, moment: str) -> None:
    """Begin an INSERT, and end this process `before` its commit, `during` or `after` it, nothing being published."""
    pravega = connect(config)
    insert, _ = begin_insert(pravega, stream, [moment.encode().ljust(PAYLOAD_BYTES)] * segments)
    log = CommitLog(pravega, stream)
    assert log.enter(insert.transaction.id, rows=segments, operation="INSERT")
    if moment != "before":
        log.wait_for_turn(insert.transaction.id, lambda: measure_tail(pravega, stream))
    if moment == "during":
        pravega.controller.commit_transaction(stream, insert.transaction.id)
    elif moment == "after":
        insert.transaction.commit(60)
    os._exit(7)


class _Gathering(CommitLog):
    """Keeps the rows of versions back, so that many of them can be written in one step."""

    def __init__(self, pravega: Pravega, stream: Stream, head: HeadRow) -> None:
        super().__init__(pravega, stream)
        self.last_head = head
        self.gathered: list[Write] = []

    def _replace(self, old: HeadRow, new: HeadRow, also: Sequence[Write] = ()) -> bool:
        self.last_head = new
        self.gathered += also
        return True


def record_versions(pravega: Pravega, stream: Stream, versions: int) -> None:
    """Record versions without events, none of them folded, as older releases leave them: hundreds in one step."""
    log, end = CommitLog(pravega, stream), measure_tail(pravega, stream)
    for first in range(0, versions, _IN_ONE_STEP):
        assert log.enter(uuid.uuid4(), rows=first, operation="TEST")
        head = log.head()
        assert head is not None
        gathering = _Gathering(pravega, stream, head)
        assert gathering._publish(head, head.queue[0], end)
        for rows in range(first + 1, min(first + _IN_ONE_STEP, versions)):
            assert gathering._publish(gathering.last_head, CommitEntry(uuid.uuid4(), rows, "TEST"), end)
        assert log._replace(head, gathering.last_head, gathering.gathered)


def remove_rows(log: CommitLog) -> None:
    """Remove all rows of a stream, as DROP TABLE does."""
    log.remove(log.rows())


def log_rows(pravega: Pravega, scope: str) -> list[dict[str, Any]]:
    """All rows of a scope's commit log: for each stream its head, then its versions."""
    return [json.loads(entry.value) for _, entry in pravega.key_value_table(scope, TABLE_NAME).entries()]
