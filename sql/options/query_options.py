"""Options of reads and writes, and settings of streaming statements in scripts."""

from __future__ import annotations

from ..option_types import (
    BOOLEAN,
    BYTE_SIZE,
    CONSUMER_NAME,
    DIRECTORY,
    DURATION,
    NAMES,
    PATTERN,
    PROPERTY,
    READ,
    READS,
    SCRIPT,
    TEXT,
    TIMESTAMP,
    TRIGGER,
    WRITE,
    WRITES,
    Option,
    between,
    one_of,
    optional,
    stream_cut,
    whole_number,
)

STREAMS = Option("streams", optional(NAMES), PROPERTY | READ)
"""Names of streams that are read as one: `a,b,other-scope/c`. As a table property: the table is these streams, and only
its name is made. As an option, of `spark.read.format("pravega")` and `readStream`."""
PATTERN_OF_STREAMS = Option("pattern", optional(PATTERN), PROPERTY | READ)
"""Like `streams`, but for all streams of the scope whose whole name matches the regular expression: `sensor-.*`. It is
one of [RE2](https://github.com/google/re2/wiki/Syntax), without look-around and references to groups."""
DISCOVERY_INTERVAL = Option("discovery-interval", between(DURATION, "1s", "1d"), READS, "10s")
"""Streaming with `pattern` or `streams`: how often to look for new streams."""
CHANGES = Option("changes", BOOLEAN, READ, "false")
"""Whether `format("pravega")` of `spark.read` and `readStream` reads the changes of the table, as `spark.read.changes`
does from Spark 4.2 on. The range is given as there, by `startingVersion` and the others."""
AT_CONSUMER = "consumer"
"""The value of `start-stream-cut` for the position of the read's `consumer`."""
AT_GROUP = "reader-group:"
"""How a value of `start-stream-cut` begins that names a reader group, for the group's position."""
START_STREAM_CUT = Option(
    "start-stream-cut",
    stream_cut("earliest", "latest", AT_CONSUMER, f"{AT_GROUP}<name>", "unbounded"),
    READ,
    "earliest",
)
"""Where the read begins. `earliest` and `unbounded`: the oldest event that is still there. `latest`, only for streaming
queries: what arrives after the query has started. `consumer`: where the option `consumer` stands.
`reader-group:<name>`: at the last checkpoint of another client's reader group, or where its readers are. A streaming
query with a checkpoint continues where its checkpoint says. Of several streams: the cuts of all, with `;` between."""
END_STREAM_CUT = Option("end-stream-cut", stream_cut("earliest", "latest", "unbounded"), READ, "latest")
"""Where the read ends. `latest` and `unbounded`: the newest event when the query is planned; for a streaming query,
there is no end."""
START_VERSION = Option("start-version", optional(whole_number(1, 2**53)), READ)
"""The first version of the table to read. Versions are those of `CHANGES`: each commit makes one."""
END_VERSION = Option("end-version", optional(whole_number(1, 2**53)), READ)
"""The last version of the table to read."""
START_TIMESTAMP = Option("start-timestamp", optional(TIMESTAMP), READ)
"""Read the versions that were published from this time on, and what other writers appended since the version before. In
a stream without versions: about what its writers wrote from this time on, by their watermarks."""
END_TIMESTAMP = Option("end-timestamp", optional(TIMESTAMP), READ)
"""Read the versions that were published up to this time. In a stream without versions: about what its writers had
written by then, by their watermarks."""
FAIL_ON_DATA_LOSS = Option("fail-on-data-loss", BOOLEAN, READS, "true")
"""Fail when events of the scan were removed before they were read. `false`: continue with the oldest event that is
left."""
MAX_BYTES_PER_TRIGGER = Option("max-bytes-per-trigger", between(BYTE_SIZE, "1"), READS, "1g")
"""Streaming: the most bytes of events in a micro-batch, over all segments. One event is always read, even if it is
larger."""
MAX_ROWS_PER_TRIGGER = Option("max-rows-per-trigger", optional(whole_number(1, 2**53)), READS)
"""Streaming: the most events in a micro-batch, over all segments."""
MIN_ROWS_PER_TRIGGER = Option("min-rows-per-trigger", optional(whole_number(1, 2**53)), READS)
"""Streaming: a micro-batch waits until there are at least this many events, but not longer than `max-trigger-delay`.
Has no effect with the triggers `availableNow` and `once`."""
MAX_TRIGGER_DELAY = Option("max-trigger-delay", between(DURATION, "1ms", "1d"), READS, "15min")
"""Streaming: how long a micro-batch waits for `min-rows-per-trigger`, counted from the one before."""
MAX_EVENT_TIME_DRIFT = Option("max-event-time-drift", optional(between(DURATION, "1ms")), READ)
"""Streaming: segments are kept in step by event time, as far as watermarks show: a micro-batch goes no further than the
first watermark that is more than this beyond the slowest segment with unread events. For tables with `event-time`, or
whose writers note times."""
CONSUMER = Option("consumer", optional(CONSUMER_NAME), READ)
"""Streaming: a name of letters, digits, `-` and `.`, unique in the scope, under which the server keeps what the query
still needs; it frees the rest as far as the stream's retention allows. For one query at a time; of several
streams, each has one. Any read can begin where it stands, with `start-stream-cut` = `consumer`."""
READ_WINDOW = Option("read-window", between(BYTE_SIZE, "64k", "256m"), READS, "8m")
"""Bytes that a task decodes at a time; its buffers need about four times as much memory."""
MAX_EXPANSION = Option("max-expansion", whole_number(1, 10_000), READS, "100")
"""A task that decompresses more than 1 GiB of events ends with an error if that is more than this many times what is
stored. Raise it for trusted events that compress very well."""
COLUMNAR_READS = Option("columnar-reads", BOOLEAN, READS, "true")
"""Spark gets the columns of a scan, and makes rows only of what it keeps. `false`: Spark gets rows. Streaming queries
get columns, in real-time mode rows."""
PUSH_DOWN_AGGREGATES = Option("push-down-aggregates", BOOLEAN, READS, "true")
"""Tasks of a scan begin `count`, `sum`, `avg`, `min` and `max` with GROUP BY where the result is exactly Spark's, and
send a row for each group. `false`: Spark gets all rows."""
PUSH_DOWN_FILTERS = Option("push-down-filters", BOOLEAN, READS, "true")
"""Tasks of a scan evaluate conditions of WHERE instead of Spark, where they know exactly what Spark would do. `false`:
Spark gets all rows, as in streaming queries."""
MIN_PARTITIONS = Option("min-partitions", optional(whole_number(1, 100_000)), READS)
"""How many tasks a batch scan should have at least, as far as borders between events are known: a segment is divided
where an earlier scan noted a border, or where a commit ended. Not set: one task reads a segment, unless tasks aggregate
the rows."""
MAX_BYTES_PER_TASK = Option("max-bytes-per-task", optional(between(BYTE_SIZE, "1")), READS)
"""How many bytes a task of a batch scan should read at most, as far as borders between events are known; see
`min-partitions`."""
UNORDERED = Option("unordered", BOOLEAN, READ, "false")
"""Streaming: tasks may take the events of one segment side by side, so that `min-partitions` and `max-bytes-per-task`
divide large micro-batches too. Otherwise events of a routing key keep their order."""
LOOKUP_KEYS_MAX = Option("lookup-keys.max", whole_number(0, 20_000), READS, "20000")
"""The most keys of a key-value table that a scan looks up one by one, for conditions on all key columns and for joins.
A scan that wants more reads the whole table."""
LOOKUP_KEYS_TIMEOUT = Option("lookup-keys.timeout", optional(between(DURATION, "100ms", "1d")), READS)
"""How long each task of a scan may take to look up keys of a key-value table, one by one; then the query fails. Without
it, `retry-timeout` limits each request."""
PUSH_DOWN_ROUTING_KEY = Option("push-down-routing-key", BOOLEAN, READS, "true")
"""A scan with conditions on the routing key reads only the segments that can have such a key, if the table has
`routing-key.of-all-events`; needs `push-down-filters`. `false`: it reads all segments. Lookups by key in remembered
rows (`current-rows.remembered-in`) need it too."""
MODE = Option("mode", one_of("failfast", "permissive", "dropmalformed"), READS | PROPERTY, "failfast")
"""What happens to an event that cannot be decoded. `failfast`: the query fails and names the event. `permissive`: the
event becomes a row of nulls, with the reason in `_error` and its bytes in `_raw`. `dropmalformed`: the event is left
out; Spark's UI shows how many."""
DEAD_LETTER = Option("dead-letter", optional(TEXT), READS | PROPERTY)
"""Stream (`name` in the same scope, or `scope/name`) for events that cannot be decoded. They are then left out of the
result. The stream is a table itself. As a table property: only one in the table's scope, which CREATE TABLE or ALTER
TABLE makes. Otherwise the query that finds the first such event makes it."""
SCHEMA_VERSION = Option("schema-version", optional(whole_number(0, 2**31 - 1)), READ)
"""Version in the schema registry, counted from 0, that gives the table its columns. Not set: the latest."""

CURRENT_ROWS_MEMORY = Option("current-rows.memory", between(BYTE_SIZE, "1m", "1g"), READS, "256m")
"""Bytes that a task uses to find the current rows of a table of changes; the rest goes to temporary files."""
CURRENT_ROWS_REMEMBERED_IN = Option("current-rows.remembered-in", optional(DIRECTORY), READS)
"""Directory in which scans of tables of changes with a primary key leave the current rows that they found, so that the
next scan reads only newer events. Any file system that Spark can have a checkpoint in: `s3a://bucket/rows`. Not set:
every scan reads all events. Whoever may read or write these files can read or change rows. See [Remembered
rows](debezium/semantics.md#remembered-rows)."""

TRANSACTION_LEASE = Option("transaction.lease", between(DURATION, "10s", "600s"), WRITES, "60s")
"""How long Pravega keeps a transaction without a sign of life from the driver, or from the only task of an INSERT. They
send one every third of this time. Until the first one, which they send at once, Pravega keeps the transaction for at
least 87 s. The statement itself may run for a day."""
TRANSACTION_TIMEOUT = Option("transaction.timeout", between(DURATION, "1s", "1d"), WRITES, "5min")
"""How long an INSERT waits for its turn among others, and until the server says that its transaction is committed."""
SPOOL_MEMORY = Option("spool.memory", between(BYTE_SIZE, "1m", "1t"), WRITES, "32m")
"""Bytes of encoded events that a writing task holds. A task with more of them sends events before its input has
ended."""

WRITE_MODE = Option("write-mode", one_of("transactional", "at-least-once", "best-effort"), WRITES, "transactional")
"""What a write promises. `transactional`: all rows become visible together, those of a micro-batch exactly once.
`at-least-once`: each row is visible as soon as it is stored; a task or a micro-batch that is run again writes its rows
again. `best-effort`: the same, but rows that servers do not accept are lost, with a warning."""
TXN_APP_ID = Option("txn-app-id", optional(TEXT), WRITE)
"""With `txn-version`, makes a write idempotent: the name of the application that numbers the writes, for example a
query that writes in `foreachBatch`. A table remembers the names until it is dropped."""
TXN_VERSION = Option("txn-version", optional(whole_number(0)), WRITE)
"""Number of a write, for example that of a micro-batch. A write is skipped unless its number is greater than all
numbers that the table has for the same `txn-app-id`."""
STREAM_COLUMN = Option("stream-column", optional(TEXT), WRITE)
"""A STRING column that names the stream of each row, in the scope of the table that is written to. These streams must
have its columns and format. The column itself is written only if the table has it. See [Several
streams](streaming.md#several-streams)."""
DELETE_COLUMN = Option("delete-column", optional(TEXT), WRITE)
"""A BOOLEAN column of the rows that a streaming query writes into a table of changes: where it is true, the row of that
key is deleted. The column itself is not written. See [Streams of results](tables-that-change.md#streams-of-results)."""

CHECKPOINT = Option("pravega.stream.checkpoint", optional(TEXT), SCRIPT)
"""Directory of the checkpoints. Every streaming statement keeps its checkpoint in a folder of its name below it."""
STREAM_NAME = Option("pravega.stream.name", optional(TEXT), SCRIPT)
"""Name of a streaming statement, in its checkpoint's path, in messages and in Spark's web interface. Not set: the full
name of the table that the statement writes to. Two statements that write to one table need names."""
TRIGGER_OF_BATCHES = Option("pravega.stream.trigger", optional(TRIGGER), SCRIPT)
"""When a micro-batch begins: at this interval; with `available now`, until everything is read that existed at the
start, in batches within the limits; `once` does that in one batch. Not set: when the one before ends."""
OUTPUT_MODE = Option("pravega.stream.mode", one_of("append", "complete", "update"), SCRIPT, "append")
"""Spark's output mode. Tables of events accept `append`."""
