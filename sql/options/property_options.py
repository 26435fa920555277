"""Properties of all tables."""

from __future__ import annotations

from ..option_types import (
    BOOLEAN,
    BYTE_SIZE,
    DURATION,
    FORMAT_NAME,
    NAMES,
    TABLE,
    TEXT,
    Option,
    SettableAs,
    between,
    one_of,
    optional,
    whole_number,
)

FORMAT = Option(
    "format",
    FORMAT_NAME,
    TABLE,
    "How the bytes of an event become columns. `raw` tables have the one column `event BINARY`, `text` tables `value "
    "STRING`. Events of the `debezium` formats and of `maxwell-json` are changes of rows, and the table shows the "
    "current rows. `kvtable` makes a key-value table instead of a stream.",
    "avro",
)
FRAMING = Option(
    "framing",
    optional(one_of("registry", "none")),
    TABLE,
    "`registry`: every event begins with the id of its schema in the schema registry, as "
    "Pravega's own serializers write it. `none`: an event is the bare document of the table's "
    "schema.",
    shown_default="registry; none for raw, text, csv and changes of rows",
)
CODEC = Option(
    "codec",
    one_of("none", "gzip", "snappy"),
    SettableAs.CATALOG | SettableAs.PROPERTY | SettableAs.WRITE,
    "Compression of written events; needs `framing=registry`. Reading recognizes the codec of each event.",
    "none",
)
ROUTING_KEY = Option(
    "routing-key",
    optional(TEXT),
    SettableAs.PROPERTY | SettableAs.WRITE,
    "Column whose value is the routing key, or columns and texts put together, such as `concat(site, '/', sensor)`: "
    "events of equal keys stay in order. Not set: events are spread over all segments.",
)
ROUTING_KEY_OF_ALL = Option(
    "routing-key.of-all-events",
    optional(BOOLEAN),
    SettableAs.PROPERTY,
    "Whether all events of the stream, whoever writes them, have the text of the `routing-key` as their routing "
    "key. Queries with conditions on the key then read only the segments that can hold it, and rows with another "
    "routing key are refused. Not set: `true` if CREATE TABLE makes the stream and names a `routing-key`, or else "
    "`false`.",
)
EVENT_TIME = Option(
    "event-time",
    optional(TEXT),
    SettableAs.PROPERTY | SettableAs.WRITE,
    "Column with the time of an event: a timestamp, a date, or a BIGINT of milliseconds. The latest time of each "
    "commit, less `event-time.delay`, is noted with it; Pravega makes the stream's watermarks from these times. Not "
    "set: no time is noted.",
)
EVENT_TIME_DELAY = Option(
    "event-time.delay",
    between(DURATION, "0s", "3650d"),
    SettableAs.PROPERTY | SettableAs.WRITE,
    "By how much rows may be older than rows that were written before them: it is subtracted from the time that a "
    "commit notes. `0s`: later commits of the writer have no older rows. Needs `event-time`.",
    "0s",
)
AVRO_TIMESTAMP = Option(
    "avro.timestamp",
    one_of("micros", "millis"),
    TABLE,
    "Unit of timestamps in the Avro schema that CREATE TABLE and ALTER TABLE write; `millis` cuts off further digits. "
    "Reading follows the schema. Flink reads every Avro long as milliseconds, whatever its logical type.",
    "micros",
    formats=("avro",),
)
JSON_TIMESTAMP_FORMAT = Option(
    "json.timestamp-format",
    one_of("iso", "epoch-seconds", "epoch-millis", "epoch-micros"),
    TABLE,
    "How timestamps are written in JSON documents: as ISO 8601 strings, or as numbers since 1970.",
    "iso",
    formats=("json",),
)
CSV_DELIMITER = Option(
    "csv.delimiter",
    optional(TEXT),
    TABLE,
    "Character between two fields, or `tab`. Not set: a comma.",
    formats=("csv",),
)
CSV_QUOTE = Option(
    "csv.quote",
    optional(TEXT),
    TABLE,
    'Character around a field that contains a delimiter, a quote or a line break. Not set: `"`.',
    formats=("csv",),
)
CSV_ESCAPE = Option(
    "csv.escape",
    optional(TEXT),
    TABLE,
    "Character before a quote inside quotes. Not set: the quote itself.",
    formats=("csv",),
)
CSV_NULL_VALUE = Option(
    "csv.null-value",
    optional(TEXT),
    TABLE,
    "An unquoted field with this text is null. Not set: an empty field is null.",
    formats=("csv",),
)
COMPATIBILITY = Option(
    "compatibility",
    one_of(
        "allow-any",
        "deny-all",
        "backward",
        "backward-transitive",
        "forward",
        "forward-transitive",
        "full",
        "full-transitive",
    ),
    SettableAs.CATALOG | SettableAs.PROPERTY,
    "Which new versions of the table's schema the schema registry accepts.",
    "backward",
)
SCALING_TYPE = Option(
    "scaling.type",
    one_of("fixed", "by-rate-kb", "by-rate-events"),
    SettableAs.PROPERTY,
    "`fixed`: the number of segments does not change. Otherwise Pravega splits and merges segments by kilobytes or "
    "events per second.",
    "fixed",
)
MOST_SEGMENTS = 10_000
"""Most segments of a stream. A server on one machine makes them in 5 s, drops them in 13 s, and cannot seal 20,000."""
SCALING_MIN_SEGMENTS = Option(
    "scaling.min-segments",
    whole_number(1, MOST_SEGMENTS),
    SettableAs.PROPERTY,
    "Number of segments at the start and, with scaling, the smallest number.",
    "1",
)
SCALING_TARGET_RATE = Option(
    "scaling.target-rate",
    optional(whole_number(1, 2**31 - 1)),
    SettableAs.PROPERTY,
    "Kilobytes or events per second that one segment should take; needed unless `scaling.type` is `fixed`.",
)
SCALING_FACTOR = Option(
    "scaling.factor",
    whole_number(2, 1_000),
    SettableAs.PROPERTY,
    "Number of segments that a hot segment is split into; only if `scaling.type` is not `fixed`.",
    "2",
)
RETENTION_TYPE = Option(
    "retention.type",
    optional(one_of("time", "size")),
    SettableAs.PROPERTY,
    "Whether old events are removed by age or by volume. Not set: nothing is removed.",
)
RETENTION_MINIMUM = Option(
    "retention.minimum",
    optional(TEXT),
    SettableAs.PROPERTY,
    "The amount that is always kept: a duration (`7d`) for `time`, bytes (`10g`) for `size`.",
)
RETENTION_MAXIMUM = Option(
    "retention.maximum",
    optional(TEXT),
    SettableAs.PROPERTY,
    "The most that is kept, even if a subscriber has not read it; in the same units. Not set: no limit.",
)
EVENT_TIME_TIMEOUT = Option(
    "event-time-timeout",
    optional(between(DURATION, "1ms", "3650d")),
    SettableAs.PROPERTY,
    "How long the stream's watermarks wait for a writer that has noted an event time, but notes no later one. Not set: "
    "they do not wait.",
)
ROLLOVER_SIZE = Option(
    "rollover-size",
    optional(between(BYTE_SIZE, "1")),
    SettableAs.PROPERTY,
    "Size at which a segment's file in long-term storage is closed and a new one started. Not set: the server's "
    "default.",
)
TAGS = Option(
    "tags",
    optional(NAMES),
    SettableAs.PROPERTY,
    "Tags of the stream, by which Pravega's own clients find it. Not set: none.",
)
