"""Properties of tables, of all and of those whose rows have keys: tables of changes, and key-value tables."""

from __future__ import annotations

from ..option_types import (
    BOOLEAN,
    BYTE_SIZE,
    DURATION,
    FORMAT_NAME,
    JSON_TEXT,
    NAME_IN_LAKE,
    NAMES,
    PROPERTY,
    READ,
    TABLE,
    TEXT,
    WRITE,
    WRITES,
    Option,
    SettableAs,
    between,
    one_of,
    optional,
    whole_number,
)

FORMAT = Option("format", FORMAT_NAME, TABLE, "avro")
"""How the bytes of an event become columns. `raw` tables have the one column `event BINARY`, `text` tables `value
STRING`. Events of the `debezium` formats and of `maxwell-json` are changes of rows, and the table shows the current
rows. `kvtable` makes a key-value table instead of a stream."""
FRAMING = Option("framing", optional(one_of("registry", "confluent", "none")), TABLE)
"""`registry`: every event begins with the id of its schema in the schema registry, as Pravega's own serializers write
it. `confluent`: with a zero byte and the id of its schema in Confluent's registry; such tables are read only, see
[Confluent's registry](formats/confluent.md). `none`: an event is the bare document of the table's schema. Not set:
`registry`, but `none` for `raw`, `text`, `csv` and changes of rows."""
CODEC = Option("codec", one_of("none", "gzip", "snappy"), WRITES | PROPERTY, "none")
"""Compression of written events; needs `framing=registry`. Reading recognizes the codec of each event."""
ROUTING_KEY = Option("routing-key", optional(TEXT), PROPERTY | WRITE)
"""Column whose value is the routing key, or columns and texts put together, such as `concat(upper(site), '/', sensor)`:
events of equal keys stay in order. Not set: events are spread over all segments."""
ROUTING_KEY_OF_ALL = Option("routing-key.of-all-events", optional(BOOLEAN), PROPERTY)
"""Whether all events of the stream, whoever writes them, have the text of the `routing-key` as their routing key.
Queries with conditions on the key then read only the segments that can hold it, and rows with another routing key are
refused. Not set: `true` if CREATE TABLE makes the stream and names a `routing-key`, or else `false`."""
EVENT_TIME = Option("event-time", optional(TEXT), PROPERTY | WRITE)
"""Column with the time of an event: a timestamp, a date, or a BIGINT of milliseconds. The latest time of each commit,
less `event-time.delay`, is noted with it; Pravega makes the stream's watermarks from these times. Not set: no time is
noted."""
EVENT_TIME_DELAY = Option("event-time.delay", between(DURATION, "0s", "3650d"), PROPERTY | WRITE, "0s")
"""By how much rows may be older than rows that were written before them: it is subtracted from the time that a commit
notes. `0s`: later commits of the writer have no older rows. Needs `event-time`."""
AVRO_TIMESTAMP = Option("avro.timestamp", one_of("micros", "millis"), TABLE, "micros", formats=("avro",))
"""Unit of timestamps in the Avro schema that CREATE TABLE and ALTER TABLE write; `millis` cuts off further digits.
Reading follows the schema. Flink reads every Avro long as milliseconds, whatever its logical type."""
JSON_TIMESTAMP_FORMAT = Option(
    "json.timestamp-format",
    one_of("iso", "epoch-seconds", "epoch-millis", "epoch-micros"),
    TABLE,
    "iso",
    formats=("json",),
)
"""How timestamps are written in JSON documents: as ISO 8601 strings, or as numbers since 1970."""
CSV_DELIMITER = Option("csv.delimiter", optional(TEXT), TABLE, formats=("csv",))
"""Character between two fields, or `tab`. Not set: a comma."""
CSV_QUOTE = Option("csv.quote", optional(TEXT), TABLE, formats=("csv",))
"""Character around a field that contains a delimiter, a quote or a line break. Not set: `"`."""
CSV_ESCAPE = Option("csv.escape", optional(TEXT), TABLE, formats=("csv",))
"""Character before a quote inside quotes. Not set: the quote itself."""
CSV_NULL_VALUE = Option("csv.null-value", optional(TEXT), TABLE, formats=("csv",))
"""An unquoted field with this text is null. Not set: an empty field is null."""
COMPATIBILITY = Option(
    "compatibility",
    one_of(*"allow-any deny-all backward backward-transitive forward forward-transitive full full-transitive".split()),
    SettableAs.CATALOG | PROPERTY,
    "backward",
)
"""Which new versions of the table's schema the schema registry accepts."""
SCALING_TYPE = Option("scaling.type", one_of("fixed", "by-rate-kb", "by-rate-events"), PROPERTY, "fixed")
"""`fixed`: the number of segments does not change. Otherwise Pravega splits and merges segments by kilobytes or events
per second."""
MOST_SEGMENTS = 10_000
"""Most segments of a stream. A server on one machine makes them in 5 s, drops them in 13 s, and cannot seal 20,000."""
SCALING_MIN_SEGMENTS = Option("scaling.min-segments", whole_number(1, MOST_SEGMENTS), PROPERTY, "1")
"""Number of segments at the start and, with scaling, the smallest number."""
SCALING_TARGET_RATE = Option("scaling.target-rate", optional(whole_number(1, 2**31 - 1)), PROPERTY)
"""Kilobytes or events per second that one segment should take; needed unless `scaling.type` is `fixed`."""
SCALING_FACTOR = Option("scaling.factor", whole_number(2, 1_000), PROPERTY, "2")
"""Number of segments that a hot segment is split into; only if `scaling.type` is not `fixed`."""
RETENTION_TYPE = Option("retention.type", optional(one_of("time", "size")), PROPERTY)
"""Whether old events are removed by age or by volume. Not set: nothing is removed."""
RETENTION_MINIMUM = Option("retention.minimum", optional(TEXT), PROPERTY)
"""The amount that is always kept: a duration (`7d`) for `time`, bytes (`10g`) for `size`."""
RETENTION_MAXIMUM = Option("retention.maximum", optional(TEXT), PROPERTY)
"""The most that is kept, even if a subscriber has not read it; in the same units. Not set: no limit."""
EVENT_TIME_TIMEOUT = Option("event-time-timeout", optional(between(DURATION, "1ms", "3650d")), PROPERTY)
"""How long the stream's watermarks wait for a writer that has noted an event time, but notes no later one. Not set:
they do not wait."""
ROLLOVER_SIZE = Option("rollover-size", optional(between(BYTE_SIZE, "1")), PROPERTY)
"""Size at which a segment's file in long-term storage is closed and a new one started. Not set: the server's
default."""
TAGS = Option("tags", optional(NAMES), PROPERTY)
"""Tags of the stream, by which Pravega's own clients find it. Not set: none."""

_DEBEZIUM = ("debezium-json", "debezium-avro")

PRIMARY_KEY = Option("primary-key", optional(TEXT), PROPERTY | READ, of_changes=True)
"""Columns of the primary key: `id`, or `order_id,line_no`. The table shows the latest state of each key. Without the
property, equal rows are counted; this needs whole `before` images. For a key-value table: the columns whose hash
chooses the partition, with the bytes of strings and binary values: `country(2),id`."""
CHANGES_ISOLATION = Option(
    "changes.isolation", one_of("serializable", "snapshot"), PROPERTY, "serializable", formats=_DEBEZIUM
)
"""Which changes that others commit in the meantime end an UPDATE, DELETE or MERGE with `PRAVEGA_CONCURRENT_CHANGE`.
`serializable`: those of rows that it has read, or would have read. `snapshot`: those of rows that it changes too."""
LAKE = Option("lake", optional(one_of("ignore", "only")), PROPERTY | READ, property_type=optional(NAME_IN_LAKE))
"""As a table property, the lake's table that has the table's old events, as `<namespace>.<table>`; the procedure `tier`
moves events there, and reads of the table have those of the lake and of the stream. As a read option, `ignore` reads
what the stream has alone, and `only` what the lake has alone, which the rows of a table of changes do not support. See
[History in a lake](history-in-a-lake.md)."""
LAKE_KEEP = Option("lake.keep", optional(DURATION), PROPERTY)
"""How long the stream keeps events that its lake has: after each tiering, those of older versions are removed from the
stream, unless a consumer needs them. Not set: retention alone removes them."""
LAKE_PARTITION = Option("lake.partition-by", one_of("hour", "day", "month", "none"), PROPERTY, "day")
"""The partitions of the lake's table: events of one hour, day or month are together, by the time of their commit, or
with `none` those of any time. The first `tier` makes the lake's table, which keeps its partitions."""
TIER_MIN_BYTES = Option("tier.min-bytes", optional(between(BYTE_SIZE, "1")), PROPERTY)
"""How many bytes that the lake lacks the stream must have, in all segments together, before `tier` copies any: so files
are few and large. A call with `until` copies them in any case. Not set: `tier` copies what there is."""
TIER_INTERVAL = Option("tier.interval", optional(between(DURATION, "1s", "3650d")), PROPERTY)
"""How often a server with `queries.run` calls the procedure `tier`, after a first call by hand. Not set: servers do not
call it."""
COMPACT_AFTER = Option("compact.after", optional(between(BYTE_SIZE, "64k")), PROPERTY, formats=_DEBEZIUM)
"""Bytes of changes after which a driver that commits to the table compacts it in the background, as the procedure
`compact_changes` does. Events older than the previous compaction are removed, unless a consumer needs them. Not set:
only the procedure compacts it. See [Compaction](tables-that-change.md#compaction)."""
INSERT_CONFLICT = Option("insert.conflict", one_of("replace", "fail"), PROPERTY, "replace", formats=_DEBEZIUM)
"""What becomes of a row that is inserted with a key that the table has, also by MERGE: it takes the place of the former
row (`replace`), or the statement fails with `PRAVEGA_DUPLICATE_KEY`. With `fail`, each INSERT reads the keys of all
rows. See [Keys that exist](tables-that-change.md#keys-that-exist)."""
AUTO_CDC_KEYS = Option("pipelines.autocdc.keyColumnNames", optional(JSON_TEXT), PROPERTY, formats=_DEBEZIUM)
"""The columns of the key of an AUTO CDC flow. Spark sets it on the table that keeps the flow's sequence numbers."""
AUTO_CDC_TYPE = Option("pipelines.autocdc.scdType", optional(TEXT), PROPERTY, formats=_DEBEZIUM)
"""The kind of history, which is SCD1, of an AUTO CDC flow. Spark sets it on the table that keeps the flow's sequence
numbers."""
INFER_COLUMNS = Option(
    "infer-columns", one_of("schema", "sample"), PROPERTY, "schema", formats=("debezium-json", "maxwell-json")
)
"""Where CREATE TABLE takes the columns from if it declares none: from the newest `schema` of its events; or, where no
event has one, from the values in a `sample` of events, which distinguish strings, booleans and numbers, but not dates
and decimals."""
DEBEZIUM_TIME_PRECISION = Option(
    "debezium.time-precision",
    one_of("adaptive", "connect", "adaptive_time_microseconds", "isostring", "microseconds", "nanoseconds"),
    TABLE,
    "adaptive",
    formats=_DEBEZIUM,
)
"""The connector's `time.precision.mode`. Timestamps without a schema are milliseconds with `connect`, microseconds with
`microseconds`, nanoseconds with `nanoseconds`, strings with `isostring`. The adaptive modes leave the unit to
`debezium.time-units` and the connector. If an event has a schema, the schema counts instead."""
DEBEZIUM_TIME_UNITS = Option("debezium.time-units", optional(TEXT), TABLE, formats=_DEBEZIUM)
"""Units of timestamps that are whole numbers, by column: `created=ms,updated=us`, with the units s, ms, us, ns. An
event without a schema does not say the unit, which depends on the column's precision in the database: ms up to 3
digits, us up to 6, ns beyond. Not set: ms for MySQL and MariaDB (DATETIME), us for PostgreSQL (TIMESTAMP); numbers of
Oracle, SQL Server, Db2, Informix and others are refused. A JSON object is accepted too."""
DEBEZIUM_DECIMAL = Option("debezium.decimal", one_of("string", "precise", "double"), TABLE, "string", formats=_DEBEZIUM)
"""The connector's `decimal.handling.mode`, where events have no schema. `string`: strings are digits. `precise`:
strings are base64 of the unscaled number with the column's scale. `double`: numbers are rounded to the column's scale.
Numbers and objects of scale and value are read in all modes."""
DEBEZIUM_BINARY = Option(
    "debezium.binary", optional(one_of("bytes", "base64", "base64-url-safe", "hex")), TABLE, formats=_DEBEZIUM
)
"""The connector's `binary.handling.mode`: how strings encode the bytes of BINARY columns. If the event's schema says
bytes, the schema counts instead. Not set: a string with a schema is refused, because its schema does not say; one
without a schema is base64 (the mode `bytes`), but is refused if it may also be hex (eight digits or more)."""
DEBEZIUM_UNAVAILABLE_VALUE = Option(
    "debezium.unavailable-value", TEXT, TABLE, "__debezium_unavailable_value", formats=_DEBEZIUM
)
"""The connector's `unavailable.value.placeholder`, which stands for a large value that an update did not change: a
text, or bytes as `hex:...`."""
DEBEZIUM_TRUNCATES = Option("debezium.truncates", BOOLEAN, TABLE, "true", formats=_DEBEZIUM)
"""Whether the stream may hold truncations of the table. A truncation lies in one segment but clears the rows of all, so
a stream with several segments is searched for truncations before it is read. Set `false` if the connector skips them
(`skipped.operations` has `t`, which is Debezium's default); the stream is still searched for marks of snapshots, unless
`debezium.snapshots` is `partial`."""
DEBEZIUM_SNAPSHOTS = Option("debezium.snapshots", one_of("whole", "partial"), TABLE, "whole", formats=_DEBEZIUM)
"""What a snapshot with marked first and last rows reads. `whole`: all rows of the table, so that earlier rows that it
lacks are gone. `partial`: the rows of a condition (`snapshot.select.statement.overrides`, `additional-conditions` of a
blocking snapshot); it replaces only the rows that it reads."""
DEBEZIUM_OLDER_POSITIONS = Option(
    "debezium.older-positions", one_of("by-time", "redelivery", "new-log"), TABLE, "by-time", formats=_DEBEZIUM
)
"""How to treat a change whose position in the database's log is older than that of the change before it. `by-time`: it
counts if the database's time is newer, because the log has begun again; otherwise it is a repeat and does not count.
`redelivery`: it never counts, for connectors that give their own time as the database's (`source.timestamp.mode`).
`new-log`: it counts unless its time is older, for events without the database's time."""
DEBEZIUM_AVRO_SCHEMAS = Option(
    "debezium.avro-schemas", optional(TEXT), TABLE, formats=("debezium-avro",), property_type=optional(JSON_TEXT)
)
"""For events with Confluent's framing (a zero byte and a schema id): the schemas by id, as a JSON object `{"7": schema,
...}` or a list of objects with `id` and `schema`. As a read option, also the path of a file with one. It is read where
the query is planned; a regular file of at most 16 MiB."""

KEY_VALUE_FORMAT = "kvtable"
"""The `format` of a key-value table, which is not a stream."""

SECONDARY_KEY = Option("secondary-key", optional(TEXT), PROPERTY, formats=(KEY_VALUE_FORMAT,))
"""Columns of the secondary key, written as those of `primary-key`: `day`, or `city(32)` with the bytes of a string.
Entries with equal primary keys share a partition, whatever their secondary keys."""
VALUE_FORMAT = Option("value-format", one_of("json", "avro", "raw"), PROPERTY, "json", formats=(KEY_VALUE_FORMAT,))
"""How the columns outside the key are stored in the values: as a JSON or Avro document of the table's schema, or `raw`:
as the bytes of the only such column."""
EPOCH_COLUMN = Option("epoch-column", optional(TEXT), PROPERTY, formats=(KEY_VALUE_FORMAT,))
"""A BIGINT column outside the key, in which a streaming query writes the epoch of its micro-batch. It leaves rows with
a greater epoch alone. See [Results that change](key-value-tables.md#results-that-change)."""
PARTITIONS = Option("partitions", whole_number(1, 1_000), PROPERTY, "4", formats=(KEY_VALUE_FORMAT,))
"""Number of partitions, which are read and written in parallel. It cannot be changed later."""
