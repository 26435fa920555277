"""Properties of tables whose rows have keys: tables of changes, and key-value tables."""

from __future__ import annotations

from ..option_types import BOOLEAN, JSON_TEXT, TABLE, TEXT, Option, SettableAs, one_of, optional, whole_number

_DEBEZIUM = ("debezium-json", "debezium-avro")

PRIMARY_KEY = Option(
    "primary-key",
    optional(TEXT),
    SettableAs.PROPERTY | SettableAs.READ,
    "Columns of the primary key: `id`, or `order_id,line_no`. The table shows the latest state of each key. Without "
    "the property, equal rows are counted; this needs whole `before` images. For a key-value table: the columns whose "
    "hash chooses the partition, with the bytes of strings and binary values: `country(2),id`.",
    of_changes=True,
)
INFER_COLUMNS = Option(
    "infer-columns",
    one_of("schema", "sample"),
    SettableAs.PROPERTY,
    "Where CREATE TABLE takes the columns from if it declares none: from the newest `schema` of its events; or, where "
    "no event has one, from the values in a `sample` of events, which distinguish strings, booleans and numbers, but "
    "not dates and decimals.",
    "schema",
    formats=("debezium-json", "maxwell-json"),
)
DEBEZIUM_TIME_PRECISION = Option(
    "debezium.time-precision",
    one_of("adaptive", "connect", "adaptive_time_microseconds", "isostring", "microseconds", "nanoseconds"),
    TABLE,
    "The connector's `time.precision.mode`. Timestamps without a schema are milliseconds with `connect`, microseconds "
    "with `microseconds`, nanoseconds with `nanoseconds`, strings with `isostring`. The adaptive modes leave the unit "
    "to `debezium.time-units` and the connector. If an event has a schema, the schema counts instead.",
    "adaptive",
    formats=_DEBEZIUM,
)
DEBEZIUM_TIME_UNITS = Option(
    "debezium.time-units",
    optional(TEXT),
    TABLE,
    "Units of timestamps that are whole numbers, by column: `created=ms,updated=us`, with the units s, ms, us, ns. An "
    "event without a schema does not say the unit, which depends on the column's precision in the database: ms up to 3 "
    "digits, us up to 6, ns beyond. Not set: ms for MySQL and MariaDB (DATETIME), us for PostgreSQL (TIMESTAMP); "
    "numbers of Oracle, SQL Server, Db2, Informix and others are refused. A JSON object is accepted too.",
    formats=_DEBEZIUM,
)
DEBEZIUM_DECIMAL = Option(
    "debezium.decimal",
    one_of("string", "precise", "double"),
    TABLE,
    "The connector's `decimal.handling.mode`, where events have no schema. `string`: strings are digits. `precise`: "
    "strings are base64 of the unscaled number with the column's scale. `double`: numbers are rounded to the column's "
    "scale. Numbers and objects of scale and value are read in all modes.",
    "string",
    formats=_DEBEZIUM,
)
DEBEZIUM_BINARY = Option(
    "debezium.binary",
    optional(one_of("bytes", "base64", "base64-url-safe", "hex")),
    TABLE,
    "The connector's `binary.handling.mode`: how strings encode the bytes of BINARY columns. If the event's schema "
    "says bytes, the schema counts instead. Not set: a string with a schema is refused, because its schema does not "
    "say; one without a schema is base64 (the mode `bytes`), but is refused if it may also be hex (eight digits or "
    "more).",
    formats=_DEBEZIUM,
)
DEBEZIUM_UNAVAILABLE_VALUE = Option(
    "debezium.unavailable-value",
    TEXT,
    TABLE,
    "The connector's `unavailable.value.placeholder`, which stands for a large value that an update did not change: a "
    "text, or bytes as `hex:...`.",
    "__debezium_unavailable_value",
    formats=_DEBEZIUM,
)
DEBEZIUM_TRUNCATES = Option(
    "debezium.truncates",
    BOOLEAN,
    TABLE,
    "Whether the stream may hold truncations of the table. A truncation lies in one segment but clears the rows of "
    "all, so a stream with several segments is searched for truncations before it is read. Set `false` if the "
    "connector skips them (`skipped.operations` has `t`, which is Debezium's default); the stream is still searched "
    "for marks of snapshots, unless `debezium.snapshots` is `partial`.",
    "true",
    formats=_DEBEZIUM,
)
DEBEZIUM_SNAPSHOTS = Option(
    "debezium.snapshots",
    one_of("whole", "partial"),
    TABLE,
    "What a snapshot with marked first and last rows reads. `whole`: all rows of the table, so that earlier rows that "
    "it lacks are gone. `partial`: the rows of a condition (`snapshot.select.statement.overrides`, "
    "`additional-conditions` of a blocking snapshot); it replaces only the rows that it reads.",
    "whole",
    formats=_DEBEZIUM,
)
DEBEZIUM_OLDER_POSITIONS = Option(
    "debezium.older-positions",
    one_of("by-time", "redelivery", "new-log"),
    TABLE,
    "How to treat a change whose position in the database's log is older than that of the change before it. `by-time`: "
    "it counts if the database's time is newer, because the log has begun again; otherwise it is a repeat and does "
    "not count. `redelivery`: it never counts, for connectors that give their own time as the database's "
    "(`source.timestamp.mode`). `new-log`: it counts unless its time is older, for events without the database's time.",
    "by-time",
    formats=_DEBEZIUM,
)
DEBEZIUM_AVRO_SCHEMAS = Option(
    "debezium.avro-schemas",
    optional(TEXT),
    TABLE,
    "For events with Confluent's framing (a zero byte and a schema id): the schemas by id, as a JSON object "
    '`{"7": schema, ...}` or a list of objects with `id` and `schema`. As a read option, also the path of a file with '
    "one. It is read where the query is planned; a regular file of at most 16 MiB.",
    formats=("debezium-avro",),
    property_type=optional(JSON_TEXT),
)

KEY_VALUE_FORMAT = "kvtable"
"""The `format` of a key-value table, which is not a stream."""

SECONDARY_KEY = Option(
    "secondary-key",
    optional(TEXT),
    SettableAs.PROPERTY,
    "Columns of the secondary key, written as those of `primary-key`: `day`, or `city(32)` with the bytes of a string. "
    "Entries with equal primary keys share a partition, whatever their secondary keys.",
    formats=(KEY_VALUE_FORMAT,),
)
VALUE_FORMAT = Option(
    "value-format",
    one_of("json", "avro", "raw"),
    SettableAs.PROPERTY,
    "How the columns outside the key are stored in the values: as a JSON or Avro document of the table's schema, or "
    "`raw`: as the bytes of the only such column.",
    "json",
    formats=(KEY_VALUE_FORMAT,),
)
EPOCH_COLUMN = Option(
    "epoch-column",
    optional(TEXT),
    SettableAs.PROPERTY,
    "A BIGINT column outside the key, in which a streaming query writes the epoch of its micro-batch. It leaves "
    "rows with a greater epoch alone. See [Results that change](key-value-tables.md#results-that-change).",
    formats=(KEY_VALUE_FORMAT,),
)
PARTITIONS = Option(
    "partitions",
    whole_number(1, 1_000),
    SettableAs.PROPERTY,
    "Number of partitions, which are read and written in parallel. It cannot be changed later.",
    "4",
    formats=(KEY_VALUE_FORMAT,),
)
