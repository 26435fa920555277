"""Options of writes, and settings of streaming statements in scripts."""

from __future__ import annotations

from ..option_types import (
    BYTE_SIZE,
    DURATION,
    TEXT,
    TRIGGER,
    Option,
    SettableAs,
    between,
    one_of,
    optional,
    whole_number,
)

TRANSACTION_LEASE = Option(
    "transaction.lease",
    between(DURATION, "10s", "600s"),
    SettableAs.CATALOG | SettableAs.WRITE,
    "How long Pravega keeps a transaction without a sign of life from the driver. The driver sends one every third of "
    "this time. Until the first one, which it sends at once, Pravega keeps the transaction for at least 87 s. The "
    "statement itself may run for a day.",
    "60s",
)
TRANSACTION_TIMEOUT = Option(
    "transaction.timeout",
    between(DURATION, "1s", "1d"),
    SettableAs.CATALOG | SettableAs.WRITE,
    "How long an INSERT waits for its turn among others, and until the server says that its transaction is committed.",
    "5min",
)
SPOOL_MEMORY = Option(
    "spool.memory",
    between(BYTE_SIZE, "1m", "1t"),
    SettableAs.CATALOG | SettableAs.WRITE,
    "Bytes of encoded events that a writing task holds. A task with more of them sends events before its input has "
    "ended.",
    "32m",
)

WRITE_MODE = Option(
    "write-mode",
    one_of("transactional", "at-least-once", "best-effort"),
    SettableAs.CATALOG | SettableAs.WRITE,
    "What a write promises. `transactional`: all rows become visible together, those of a micro-batch exactly once. "
    "`at-least-once`: each row is visible as soon as it is stored; a task or a micro-batch that is run again writes "
    "its rows again. `best-effort`: the same, but rows that servers do not accept are lost, with a warning.",
    "transactional",
)
TXN_APP_ID = Option(
    "txn-app-id",
    optional(TEXT),
    SettableAs.WRITE,
    "With `txn-version`, makes a write idempotent: the name of the application that numbers the writes, for example a "
    "query that writes in `foreachBatch`. A table remembers the names until it is dropped.",
)
TXN_VERSION = Option(
    "txn-version",
    optional(whole_number(0)),
    SettableAs.WRITE,
    "Number of a write, for example that of a micro-batch. A write is skipped unless its number is greater than all "
    "numbers that the table has for the same `txn-app-id`.",
)
STREAM_COLUMN = Option(
    "stream-column",
    optional(TEXT),
    SettableAs.WRITE,
    "A STRING column that names the stream of each row, in the scope of the table that is written to. These streams "
    "must have its columns and format. The column itself is written only if the table has it. See "
    "[Several streams](streaming.md#several-streams).",
)

CHECKPOINT = Option(
    "pravega.stream.checkpoint",
    optional(TEXT),
    SettableAs.SCRIPT,
    "Directory of the checkpoints. Every streaming statement keeps its checkpoint in a folder of its name below it.",
)
STREAM_NAME = Option(
    "pravega.stream.name",
    optional(TEXT),
    SettableAs.SCRIPT,
    "Name of a streaming statement, in its checkpoint's path, in messages and in Spark's web interface. Not set: the "
    "full name of the table that the statement writes to. Two statements that write to one table need names.",
)
TRIGGER_OF_BATCHES = Option(
    "pravega.stream.trigger",
    optional(TRIGGER),
    SettableAs.SCRIPT,
    "When a micro-batch begins: at this interval; with `available now`, until everything is read that existed at the "
    "start, in batches within the limits; `once` does that in one batch. Not set: when the one before ends.",
)
OUTPUT_MODE = Option(
    "pravega.stream.mode",
    one_of("append", "complete", "update"),
    SettableAs.SCRIPT,
    "Spark's output mode. Pravega tables accept `append`.",
    "append",
)
