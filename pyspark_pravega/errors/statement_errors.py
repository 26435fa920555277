"""Errors of statements, and of the events, rows and schemas that they read and write."""

from __future__ import annotations

from .root import PravegaError


class InvalidOptionError(PravegaError, condition="PRAVEGA_INVALID_OPTION", sql_state="42616"):
    """An option, table property or conf is unknown, ill-typed or set in a place that does not allow it."""

    cure = "Correct the key or the value that the message names. [Options](options.md) lists every key and its places."


class InvalidNameError(PravegaError, condition="PRAVEGA_INVALID_NAME", sql_state="42602"):
    """A scope, stream or column has a name that Pravega or the format cannot hold."""

    cure = (
        "Use the name that the message suggests. Names of scopes and streams may have letters, digits, `-` and `.`. In \
SQL write `_` for `-`, and put names with `.` in backticks."
    )


class UnsupportedOperationError(PravegaError, condition="PRAVEGA_UNSUPPORTED_OPERATION", sql_state="0A000"):
    """A stream cannot do what the statement asks for."""

    cure = "Do what the message names instead. [SQL](sql.md) lists every statement."


class InvalidScriptError(PravegaError, condition="PRAVEGA_INVALID_SCRIPT", sql_state="42601"):
    """A script of `pyspark-pravega run` cannot be run as it is; the message names the line."""

    cure = "Correct the statement that the message names. [Streaming](streaming.md) says what a script may contain."


class StatementCancelledError(PravegaError, condition="PRAVEGA_CANCELLED", sql_state="HY008"):
    """The statement was cancelled, for example by Ctrl-C, while it waited for the servers."""

    cure = "Run the statement again. If it was cancelled because it took long, look at the servers, or lower \
`request-timeout` and `retry-timeout`."


class EventTooLargeError(PravegaError, condition="PRAVEGA_EVENT_TOO_LARGE", sql_state="54000"):
    """An event is over 8 MiB, the most that official clients can read."""

    cure = "Split the row, shorten its values, or set the table property `codec` to `gzip`."


class InvalidRowError(PravegaError, condition="PRAVEGA_INVALID_ROW", sql_state="22000"):
    """A row cannot be written: null as routing key or as `NOT NULL`, a value out of range, a key changed twice."""

    cure = "Filter such rows out, or give them a value: `coalesce(column, ...)`. Let a statement [change each key \
once](tables-that-change.md#what-is-written)."


class DuplicateKeyError(PravegaError, condition="PRAVEGA_DUPLICATE_KEY", sql_state="23505"):
    """A statement inserts a key twice, or one that a table with `'insert.conflict'='fail'` has. Nothing is written."""

    cure = "Choose other keys, or change rows by MERGE: [Keys that exist](tables-that-change.md#keys-that-exist)."


class MalformedEventError(PravegaError, condition="PRAVEGA_MALFORMED_EVENT", sql_state="22000"):
    """An event does not fit its schema; the message names segment, offset and reason."""

    cure = "Set the read option `mode` to `permissive` to see such events, or to `dropmalformed` to leave them out: \
[Bad events](formats/bad-events.md)."


class UnsupportedTypeError(PravegaError, condition="PRAVEGA_UNSUPPORTED_TYPE", sql_state="429BB"):
    """The table's format cannot hold the type of a column; the message names the column."""

    cure = "Cast the column, or use another `format`: [Formats](formats/README.md)."


class InvalidSchemaError(PravegaError, condition="PRAVEGA_INVALID_SCHEMA", sql_state="42P15"):
    """A schema cannot describe a table: it cannot be parsed, has values that fit no column, or is not a record."""

    cure = "Correct the schema in the registry, or read the stream as `raw`."


class DifferentSchemasError(PravegaError, condition="PRAVEGA_DIFFERENT_SCHEMAS", sql_state="42P15"):
    """Streams that a query reads as one table have different formats, or columns that do not fit together."""

    cure = "Read the stream that the message names on its own, or name streams that fit each other with `streams`."


class SchemaNotFoundError(PravegaError, condition="PRAVEGA_SCHEMA_NOT_FOUND", sql_state="42704"):
    """The registry has no such group, schema or encoding id."""

    cure = "Give the stream a schema with `CREATE TABLE`, or check that `schema-registry-uri` is the registry that its \
writers use."


class SchemaExistsError(PravegaError, condition="PRAVEGA_SCHEMA_EXISTS", sql_state="42710"):
    """The registry has such a group or schema already."""

    cure = "Use another name, or delete the group that is left over."


class IncompatibleSchemaError(PravegaError, condition="PRAVEGA_INCOMPATIBLE_SCHEMA", sql_state="42KDG"):
    """The registry's compatibility policy refuses the schema."""

    cure = "Use a schema that the policy allows, or change the policy with the table property `compatibility`."
