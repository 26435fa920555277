"""Every option of this package: name, type, default, where it may stand, and what it means.

Nothing else reads option text. `resolve` takes the texts from all places, refuses what is unknown, misplaced
or ill-typed, and returns `Options`, from which values are read by declaration and so with their type:

    options = resolve(conf={"controller-uri": "tcp://pravega:9090"}, read={"read-window": "8m"})
    options.get(READ_WINDOW)  # 8388608

What counts, strongest first: read or write option, table property, catalog conf, environment, default.
`docs/options.md` is generated from this module. Options that only make sense together are read as one:
`connection_settings` and `table_settings`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeVar

from pyspark_pravega.errors import InvalidOptionError

from .option_types import (
    BOOLEAN,
    BYTE_SIZE,
    DURATION,
    FORMAT_NAME,
    NAMES,
    PATTERN,
    PLUG_IN,
    STREAM_CUT,
    TEXT,
    TIMESTAMP,
    TRIGGER,
    URI,
    Option,
    OptionType,
    SettableAs,
    at_least,
    between,
    one_of,
    optional,
    whole_number,
)
from .resolution import Options, Resolution, Source, spelled

__all__ = ["OPTIONS", "Option", "Options", "SettableAs", "Source", "resolve"]

T = TypeVar("T")

_QUERY = SettableAs.READ | SettableAs.WRITE
_CONNECTION = SettableAs.CATALOG | _QUERY
_TABLE = SettableAs.PROPERTY | _QUERY

_DEBEZIUM = ("debezium-json", "debezium-avro")

OPTIONS: dict[str, Option[Any]] = {}
"""All options by key, in the order of this module."""


def _option(
    key: str,
    type: OptionType[T],
    default: T,
    allowed: SettableAs,
    doc: str,
    default_text: str | None = None,
    *,
    secret: bool = False,
    env: str | None = None,
    connection: bool = False,
    formats: tuple[str, ...] = (),
    hint: str = "",
    of_changes: bool = False,
) -> Option[T]:
    option = Option(key, type, default, allowed, doc, default_text, secret, env, connection, formats, hint, of_changes)
    OPTIONS[key] = option
    return option


# How to reach the servers.

_LOCAL = (
    "To try it without servers of your own: 'pyspark-pravega local start' runs a Pravega on this machine, and "
    "'eval \"$(pyspark-pravega local env)\"' sets its addresses."
)
CONTROLLER_URI = _option(
    "controller-uri",
    optional(URI),
    None,
    _CONNECTION,
    "Pravega's controller: `tcp://host:9090`, or `tls://host:9090` for TLS to the controller "
    "and the segment stores. Several controllers: `tcp://a:9090,b:9090`.",
    env="PRAVEGA_CONTROLLER_URI",
    connection=True,
    hint=_LOCAL,
)
SCHEMA_REGISTRY_URI = _option(
    "schema-registry-uri",
    optional(URI),
    None,
    _CONNECTION,
    "Pravega's schema registry: `http://host:9092` or `https://host:9092`. Without it "
    "there are only formats whose columns are not kept there, such as `raw`, `text` and `csv`.",
    env="PRAVEGA_SCHEMA_REGISTRY_URI",
    connection=True,
    hint=_LOCAL,
)
AUTH_TYPE = _option(
    "security.auth-type",
    optional(TEXT),
    None,
    _CONNECTION,
    "Scheme that goes with `security.auth-token`, for example `Basic` or `Bearer`.",
    env="pravega_client_auth_method",
    connection=True,
)
AUTH_TOKEN = _option(
    "security.auth-token",
    optional(TEXT),
    None,
    _CONNECTION,
    "Token sent to the controller and the registry; for `Basic` it is base64 of `user:password`.",
    env="pravega_client_auth_token",
    secret=True,
    connection=True,
)
USERNAME = _option(
    "security.username",
    optional(TEXT),
    None,
    _CONNECTION,
    "User name for Basic authentication; needs `security.password`.",
    connection=True,
)
PASSWORD = _option(
    "security.password",
    optional(TEXT),
    None,
    _CONNECTION,
    "Password for Basic authentication.",
    secret=True,
    connection=True,
)
CREDENTIALS = _option(
    "security.credentials",
    optional(PLUG_IN),
    None,
    _CONNECTION,
    "Plug-in: a callable without arguments that returns an object whose `authorization()` "
    "gives `Scheme token`. It is asked for every request, so it may refresh; it must be "
    "importable on the executors too.",
    connection=True,
)
TRUST_STORE = _option(
    "security.trust-store",
    optional(TEXT),
    None,
    _CONNECTION,
    "PEM file with the certificate authorities to trust, on the driver and on every executor. "
    "Not set: the system's authorities.",
    env="PRAVEGA_TRUST_STORE",
    connection=True,
)
VALIDATE_HOSTNAME = _option(
    "security.validate-hostname",
    BOOLEAN,
    True,
    _CONNECTION,
    "Check that a server's certificate names the host that was asked for.",
    "true",
    connection=True,
)
REQUEST_TIMEOUT = _option(
    "request-timeout",
    between(DURATION, timedelta(milliseconds=100), "100ms", timedelta(hours=1), "1h"),
    timedelta(seconds=30),
    _CONNECTION,
    "How long one request to a server may take.",
    "30s",
    connection=True,
)
RETRY_TIMEOUT = _option(
    "retry-timeout",
    between(DURATION, timedelta(milliseconds=100), "100ms", timedelta(days=1), "1d"),
    timedelta(seconds=60),
    _CONNECTION,
    "How long to keep trying when a server cannot be reached. Wrong credentials, missing "
    "rights and TLS faults are never retried.",
    "60s",
    connection=True,
)


# The catalog, and which stream.

PYTHON = _option(
    "python",
    optional(TEXT),
    None,
    SettableAs.CATALOG,
    "Python interpreter of the catalog service on the driver; it must have this package. Not set: the driver's Python "
    "(`spark.pyspark.driver.python`, `PYSPARK_DRIVER_PYTHON`) if it is a Python, else the tasks' Python "
    "(`spark.pyspark.python`, `PYSPARK_PYTHON`, then `python3`).",
)
SCOPE = _option(
    "scope",
    optional(TEXT),
    None,
    _CONNECTION,
    "Scope of the stream. In catalog conf: the namespace that `USE <catalog>` selects.",
    env="PRAVEGA_SCOPE",
)
CATALOG = _option(
    "catalog",
    optional(TEXT),
    None,
    _QUERY,
    'For `spark.read.format("pravega")` and the like: the catalog whose conf says how to connect. Not set: the options '
    "of the query, if one of them does; else the session's catalog of Pravega, if it has only one; else the "
    "environment.",
)
STREAM = _option(
    "stream",
    optional(TEXT),
    None,
    _QUERY,
    'Name of the stream, for `spark.read.format("pravega")` and `df.write.format("pravega")`.',
)


# What a table is.

FORMAT = _option(
    "format",
    FORMAT_NAME,
    "avro",
    _TABLE,
    "How the bytes of an event become columns. `raw` tables have the one column `event BINARY`, `text` tables "
    "`value STRING`. Events of the `debezium` formats and of `maxwell-json` are changes of rows, and the table shows "
    "the current rows.",
    "avro",
)
FRAMING = _option(
    "framing",
    optional(one_of("registry", "none")),
    None,
    _TABLE,
    "`registry`: every event begins with the id of its schema in the schema registry, as "
    "Pravega's own serializers write it. `none`: an event is the bare document of the table's "
    "schema.",
    "registry; none for raw, text, csv and changes of rows",
)
CODEC = _option(
    "codec",
    one_of("none", "gzip", "snappy"),
    "none",
    SettableAs.CATALOG | SettableAs.PROPERTY | SettableAs.WRITE,
    "Compression of written events; needs `framing=registry`. Reading finds the codec of each event by itself.",
    "none",
)
ROUTING_KEY = _option(
    "routing-key",
    optional(TEXT),
    None,
    SettableAs.PROPERTY | SettableAs.WRITE,
    "Column whose value is the routing key: events of equal keys stay in order. Not set: "
    "events are spread over the segments.",
)
EVENT_TIME = _option(
    "event-time",
    optional(TEXT),
    None,
    SettableAs.PROPERTY | SettableAs.WRITE,
    "Column with the time of an event: the latest of a commit is noted with it, of which Pravega makes the stream's "
    "watermarks. A timestamp, a date, or a BIGINT of milliseconds. Not set: none is noted.",
)
JSON_TIMESTAMP_FORMAT = _option(
    "json.timestamp-format",
    one_of("iso", "epoch-seconds", "epoch-millis", "epoch-micros"),
    "iso",
    _TABLE,
    "How timestamps stand in JSON documents: as ISO 8601 strings, or as numbers since 1970.",
    "iso",
    formats=("json",),
)
CSV_DELIMITER = _option(
    "csv.delimiter",
    optional(TEXT),
    None,
    _TABLE,
    "Character between two fields, or `tab`. Not set: a comma.",
    formats=("csv",),
)
CSV_QUOTE = _option(
    "csv.quote",
    optional(TEXT),
    None,
    _TABLE,
    'Character around a field with a delimiter, a quote or a line break in it. Not set: `"`.',
    formats=("csv",),
)
CSV_ESCAPE = _option(
    "csv.escape",
    optional(TEXT),
    None,
    _TABLE,
    "Character before a quote inside of quotes. Not set: the quote itself.",
    formats=("csv",),
)
CSV_NULL_VALUE = _option(
    "csv.null-value",
    optional(TEXT),
    None,
    _TABLE,
    "An unquoted field with this text is null. Not set: an empty one.",
    formats=("csv",),
)
COMPATIBILITY = _option(
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
    "backward",
    SettableAs.CATALOG | SettableAs.PROPERTY,
    "Which new versions of its schema the schema registry accepts.",
    "backward",
)
SCALING_TYPE = _option(
    "scaling.type",
    one_of("fixed", "by-rate-kb", "by-rate-events"),
    "fixed",
    SettableAs.PROPERTY,
    "`fixed`: the number of segments stays. Else Pravega splits and merges segments by kilobytes or events per second.",
    "fixed",
)
SCALING_MIN_SEGMENTS = _option(
    "scaling.min-segments",
    whole_number(1, 10_000),  # 10,000 take a server on one machine 5 s to make and 13 s to drop; 20,000 it cannot seal
    1,
    SettableAs.PROPERTY,
    "Number of segments at the start and, with scaling, the least number.",
    "1",
)
SCALING_TARGET_RATE = _option(
    "scaling.target-rate",
    optional(whole_number(1, 2**31 - 1)),
    None,
    SettableAs.PROPERTY,
    "Kilobytes or events per second that one segment should take; needed unless `scaling.type` is `fixed`.",
)
SCALING_FACTOR = _option(
    "scaling.factor",
    whole_number(2, 1_000),
    2,
    SettableAs.PROPERTY,
    "Into how many segments a hot one is split; only when `scaling.type` is not `fixed`.",
    "2",
)
RETENTION_TYPE = _option(
    "retention.type",
    optional(one_of("time", "size")),
    None,
    SettableAs.PROPERTY,
    "Whether old events are removed by age or by volume. Not set: nothing is removed.",
)
RETENTION_MINIMUM = _option(
    "retention.minimum",
    optional(TEXT),
    None,
    SettableAs.PROPERTY,
    "What is kept in any case: a duration (`7d`) for `time`, bytes (`10g`) for `size`.",
)
RETENTION_MAXIMUM = _option(
    "retention.maximum",
    optional(TEXT),
    None,
    SettableAs.PROPERTY,
    "What is kept at most, even if a subscriber has not read it; in the same units. Not set: no such limit.",
)
EVENT_TIME_TIMEOUT = _option(
    "event-time-timeout",
    optional(between(DURATION, timedelta(milliseconds=1), "1ms", timedelta(days=3650), "3650d")),
    None,
    SettableAs.PROPERTY,
    "How long the stream's watermarks wait for a writer that has noted event time, and notes no later one then. Not "
    "set: they do not wait.",
)
ROLLOVER_SIZE = _option(
    "rollover-size",
    optional(at_least(BYTE_SIZE, 1, "1")),
    None,
    SettableAs.PROPERTY,
    "Size at which a segment's file in long-term storage is closed and a new one begun. Not set: the server's default.",
)


# What a table of changes is.

PRIMARY_KEY = _option(
    "primary-key",
    optional(TEXT),
    None,
    SettableAs.PROPERTY | SettableAs.READ,
    "Columns of the primary key: `id`, or `order_id,line_no`. The table shows the latest state of each key. Without "
    "the property, equal rows are counted; this needs whole `before` images.",
    of_changes=True,
)
INFER_COLUMNS = _option(
    "infer-columns",
    one_of("schema", "sample"),
    "schema",
    SettableAs.PROPERTY,
    "Where CREATE TABLE takes the columns from if it declares none: from the newest `schema` of its events; or, where "
    "no event has one, from the values in a `sample` of events, which tell strings, booleans and numbers apart but "
    "neither dates nor decimals.",
    "schema",
    formats=("debezium-json", "maxwell-json"),
)
DEBEZIUM_TIME_PRECISION = _option(
    "debezium.time-precision",
    one_of("adaptive", "connect"),
    "adaptive",
    _TABLE,
    "The connector's `time.precision.mode`: `adaptive` (also `adaptive_time_microseconds`) or `connect`, where "
    "timestamps are in milliseconds. If an event has a schema, the schema counts instead.",
    "adaptive",
    formats=_DEBEZIUM,
)
DEBEZIUM_TIME_UNITS = _option(
    "debezium.time-units",
    optional(TEXT),
    None,
    _TABLE,
    "Units of timestamps that are whole numbers, by column: `created=ms,updated=us`, of s, ms, us, ns. An event "
    "without schema does not tell the unit, which depends on the column's precision in the database: ms up to 3 "
    "digits, us up to 6, ns beyond. Not set: ms for MySQL and MariaDB (DATETIME), us for the others (TIMESTAMP), none "
    "for SQL Server. A JSON object can be given too.",
    formats=_DEBEZIUM,
)
DEBEZIUM_DECIMAL = _option(
    "debezium.decimal",
    one_of("string", "precise", "double"),
    "string",
    _TABLE,
    "The connector's `decimal.handling.mode`, where events have no schema. `string`: strings are digits. `precise`: "
    "strings are base64 of the unscaled number with the column's scale. `double`: numbers are rounded to the column's "
    "scale. Numbers and objects of scale and value are read in all modes.",
    "string",
    formats=_DEBEZIUM,
)
DEBEZIUM_UNAVAILABLE_VALUE = _option(
    "debezium.unavailable-value",
    TEXT,
    "__debezium_unavailable_value",
    _TABLE,
    "The connector's `unavailable.value.placeholder`, which stands for a large value that an update did not change.",
    "__debezium_unavailable_value",
    formats=_DEBEZIUM,
)
DEBEZIUM_TRUNCATES = _option(
    "debezium.truncates",
    BOOLEAN,
    True,
    _TABLE,
    "Whether the stream may hold truncations of the table. A truncation lies in one segment but clears the rows of "
    "all, so a stream with several segments is searched for truncations before it is read. Set `false` if the "
    "connector skips them (`skipped.operations` has `t`, which is Debezium's default).",
    "true",
    formats=_DEBEZIUM,
)
DEBEZIUM_AVRO_SCHEMAS = _option(
    "debezium.avro-schemas",
    optional(TEXT),
    None,
    _TABLE,
    "For events with Confluent's framing (a zero byte and a schema id): the schemas by id, as a JSON object "
    '`{"7": schema, ...}` or a list of objects with `id` and `schema`, or the path of a file with one. It is '
    "read where the query is planned; a regular file of at most 16 MiB.",
    formats=("debezium-avro",),
)


# Reading.

STREAMS = _option(
    "streams",
    optional(NAMES),
    None,
    SettableAs.READ,
    'Names of streams of one scope that `spark.read.format("pravega")` reads as one: `a,b`.',
)
PATTERN_OF_STREAMS = _option(
    "pattern",
    optional(PATTERN),
    None,
    SettableAs.READ,
    "As `streams`, but all streams of the scope whose whole name the regular expression matches: `sensor-.*`.",
)
DISCOVERY_INTERVAL = _option(
    "discovery-interval",
    between(DURATION, timedelta(seconds=1), "1s", timedelta(days=1), "1d"),
    timedelta(seconds=10),
    SettableAs.CATALOG | SettableAs.READ,
    "Streaming with `pattern`: how often new streams are looked for.",
    "10s",
)
START_STREAM_CUT = _option(
    "start-stream-cut",
    STREAM_CUT,
    "earliest",
    SettableAs.READ,
    "Where the read begins. `earliest` and `unbounded`: the oldest event that is still there. `latest`, for streams "
    "only: what comes after the query has started. A streaming query with a checkpoint goes on where that says.",
    "earliest",
)
END_STREAM_CUT = _option(
    "end-stream-cut",
    STREAM_CUT,
    "latest",
    SettableAs.READ,
    "Where the read ends. `latest` and `unbounded`: the newest event when the query is planned; of a stream, nowhere.",
    "latest",
)
START_VERSION = _option(
    "start-version",
    optional(whole_number(1, 2**53)),
    None,
    SettableAs.READ,
    "The first version of the table to read: the versions of `CHANGES`, one for each commit.",
)
END_VERSION = _option(
    "end-version",
    optional(whole_number(1, 2**53)),
    None,
    SettableAs.READ,
    "The last version of the table to read.",
)
START_TIMESTAMP = _option(
    "start-timestamp",
    optional(TIMESTAMP),
    None,
    SettableAs.READ,
    "Read the versions that were published from this time on, and what others appended since the version before.",
)
END_TIMESTAMP = _option(
    "end-timestamp",
    optional(TIMESTAMP),
    None,
    SettableAs.READ,
    "Read the versions that were published up to this time.",
)
FAIL_ON_DATA_LOSS = _option(
    "fail-on-data-loss",
    BOOLEAN,
    True,
    SettableAs.CATALOG | SettableAs.READ,
    "Fail when events of the scan were removed before they were read. `false`: go on with the oldest event there is.",
    "true",
)
MAX_BYTES_PER_TRIGGER = _option(
    "max-bytes-per-trigger",
    at_least(BYTE_SIZE, 1, "1"),
    1 << 30,
    SettableAs.CATALOG | SettableAs.READ,
    "Streaming: bytes of events that a micro-batch holds at most, over all segments. One event is always read, even if "
    "it is larger.",
    "1g",
)
MAX_ROWS_PER_TRIGGER = _option(
    "max-rows-per-trigger",
    optional(whole_number(1, 2**53)),
    None,
    SettableAs.CATALOG | SettableAs.READ,
    "Streaming: events that a micro-batch holds at most, over all segments.",
)
MIN_ROWS_PER_TRIGGER = _option(
    "min-rows-per-trigger",
    optional(whole_number(1, 2**53)),
    None,
    SettableAs.CATALOG | SettableAs.READ,
    "Streaming: a micro-batch waits until there are so many events, but not longer than `max-trigger-delay`. Not with "
    "the triggers `availableNow` and `once`.",
)
MAX_TRIGGER_DELAY = _option(
    "max-trigger-delay",
    between(DURATION, timedelta(milliseconds=1), "1ms", timedelta(days=1), "1d"),
    timedelta(minutes=15),
    SettableAs.CATALOG | SettableAs.READ,
    "Streaming: how long a micro-batch waits for `min-rows-per-trigger`, from the one before.",
    "15min",
)
CONSUMER = _option(
    "consumer",
    optional(TEXT),
    None,
    SettableAs.READ,
    "Streaming: name, unique in the scope, under which the server keeps what the query still needs, and frees the rest "
    "as far as the stream's retention allows. For one query at a time.",
)
READ_WINDOW = _option(
    "read-window",
    between(BYTE_SIZE, 1 << 16, "64k", 256 << 20, "256m"),
    16 << 20,
    SettableAs.CATALOG | SettableAs.READ,
    "Bytes that a task decodes at a time; its buffers need about four times as much memory.",
    "16m",
)
MODE = _option(
    "mode",
    one_of("failfast", "permissive", "dropmalformed"),
    "failfast",
    SettableAs.CATALOG | SettableAs.PROPERTY | SettableAs.READ,
    "What happens to an event that cannot be decoded. `failfast`: the query fails and names the event. `permissive`: "
    "the event becomes a row of nulls, with the reason in `_error` and its bytes in `_raw`. `dropmalformed`: the event "
    "is left out; Spark's UI shows how many.",
    "failfast",
)
DEAD_LETTER = _option(
    "dead-letter",
    optional(TEXT),
    None,
    SettableAs.CATALOG | SettableAs.PROPERTY | SettableAs.READ,
    "Stream (`name` in the same scope, or `scope/name`) for events that cannot be decoded. They are then left out of "
    "the result. The stream is created when the first one is found, and is a table itself.",
)
SCHEMA_VERSION = _option(
    "schema-version",
    optional(whole_number(0, 2**31 - 1)),
    None,
    SettableAs.READ,
    "Version in the schema registry, counted from 0, that gives the table its columns. Not set: the latest.",
)

CURRENT_ROWS_MEMORY = _option(
    "current-rows.memory",
    between(BYTE_SIZE, 1 << 20, "1m", 1 << 30, "1g"),
    256 << 20,
    SettableAs.CATALOG | SettableAs.READ,
    "Bytes that a task uses to find the current rows of a table of changes; the rest goes to temporary files.",
    "256m",
)


# Writing.

TRANSACTION_LEASE = _option(
    "transaction.lease",
    between(DURATION, timedelta(seconds=10), "10s", timedelta(seconds=600), "600s"),
    timedelta(seconds=60),
    SettableAs.CATALOG | SettableAs.WRITE,
    "How long Pravega keeps a transaction without a sign of life from the driver. The driver gives one every third of "
    "this time. The statement itself may run for a day.",
    "60s",
)
TRANSACTION_TIMEOUT = _option(
    "transaction.timeout",
    between(DURATION, timedelta(seconds=1), "1s", timedelta(days=1), "1d"),
    timedelta(minutes=5),
    SettableAs.CATALOG | SettableAs.WRITE,
    "How long an INSERT waits for its turn among others, and until the server says that its transaction is committed.",
    "5min",
)
SPOOL_MEMORY = _option(
    "spool.memory",
    between(BYTE_SIZE, 1 << 20, "1m", 1 << 40, "1t"),
    32 << 20,
    SettableAs.CATALOG | SettableAs.WRITE,
    "Bytes of encoded events that a writing task keeps in memory; the rest goes to a temporary file.",
    "32m",
)

WRITE_MODE = _option(
    "write-mode",
    one_of("transactional", "at-least-once", "best-effort"),
    "transactional",
    SettableAs.CATALOG | SettableAs.WRITE,
    "What a write promises. `transactional`: all rows become visible together, those of a micro-batch exactly once. "
    "`at-least-once`: each row is visible as soon as it is stored; a task or a micro-batch that is run again writes "
    "its rows again. `best-effort`: the same, and rows that servers do not take are lost, with a warning.",
    "transactional",
)
TXN_APP_ID = _option(
    "txn-app-id",
    optional(TEXT),
    None,
    SettableAs.WRITE,
    "With `txn-version`, makes a write idempotent: the name of who numbers the writes, for example of a query that "
    "writes in `foreachBatch`. Names are known to a table until it is dropped.",
)
TXN_VERSION = _option(
    "txn-version",
    optional(whole_number(0)),
    None,
    SettableAs.WRITE,
    "Number of a write, for example that of a micro-batch. A write whose number is not greater than the greatest that "
    "the table has of the same `txn-app-id` is left out.",
)


# Streaming statements of scripts.

CHECKPOINT = _option(
    "pravega.stream.checkpoint",
    optional(TEXT),
    None,
    SettableAs.SCRIPT,
    "Directory of the checkpoints. Every streaming statement keeps its own in a folder below it that has its name.",
)
STREAM_NAME = _option(
    "pravega.stream.name",
    optional(TEXT),
    None,
    SettableAs.SCRIPT,
    "Name of a streaming statement, in its checkpoint's path, in messages and in Spark's web interface. Without it, "
    "that is the full name of the table that is written to; two statements with one table need names.",
)
TRIGGER_OF_BATCHES = _option(
    "pravega.stream.trigger",
    optional(TRIGGER),
    None,
    SettableAs.SCRIPT,
    "When a micro-batch begins: every so often, or with `available now` until all is read that was there at the start, "
    "in batches within the limits; `once` does that in one batch. Without it, when the one before ends.",
)
OUTPUT_MODE = _option(
    "pravega.stream.mode",
    one_of("append", "complete", "update"),
    "append",
    SettableAs.SCRIPT,
    "Spark's output mode. Tables of Pravega take `append`.",
    "append",
)

_LOGIN = (AUTH_TYPE, AUTH_TOKEN, USERNAME, PASSWORD, CREDENTIALS)
_DYNAMIC_CREDENTIALS = "pravega_client_auth_loadDynamic"


def find_option(key: str) -> Option[Any] | None:
    """Return the option of a key in any spelling, None if there is none."""
    return OPTIONS.get(spelled(key, OPTIONS))


def resolve(
    *,
    conf: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    read: Mapping[str, str] | None = None,
    write: Mapping[str, str] | None = None,
    script: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Options:
    """Check and type the options of all places; keys in any case. `env` None means the process environment.

    Raises InvalidOptionError naming the key, the value (never a secret), what is allowed and, for an unknown
    key, the nearest valid one.
    """
    environment = os.environ if env is None else env
    resolution = Resolution(OPTIONS, environment)
    resolution.add(SettableAs.READ, Source.QUERY, read or {})
    resolution.add(SettableAs.WRITE, Source.QUERY, write or {})
    resolution.add(SettableAs.SCRIPT, Source.QUERY, script or {})
    resolution.add(SettableAs.PROPERTY, Source.PROPERTY, properties or {})
    resolution.add(SettableAs.CATALOG, Source.CATALOG, conf or {})
    resolution.add_environment()
    options = resolution.options()
    if environment.get(_DYNAMIC_CREDENTIALS, "").lower() == "true" and not any(
        options.source(option) > Source.ENVIRONMENT for option in _LOGIN
    ):
        raise InvalidOptionError(
            f"The environment variable {_DYNAMIC_CREDENTIALS}=true asks for a Java class of credentials, "
            "which Python cannot load. Unset it and name a Python plug-in with "
            f"'{CREDENTIALS.key}' (module:attribute)."
        )
    return options
