"""Errors about events and rows, and about the schemas that they follow."""

from __future__ import annotations

from .root import PravegaError


class EventTooLargeError(PravegaError):
    """An event is over 8 MiB, the most that official clients can read."""

    condition = "PRAVEGA_EVENT_TOO_LARGE"
    sql_state = "54000"
    cure = "Split the row, shorten its values, or set the table property `codec` to `gzip`."


class InvalidRowError(PravegaError):
    """A row cannot be written: a null routing key, a null in a `NOT NULL` column, a value out of range."""

    condition = "PRAVEGA_INVALID_ROW"
    sql_state = "22000"
    cure = "Filter such rows out, or give them a value: `coalesce(column, ...)`."


class MalformedEventError(PravegaError):
    """An event does not fit its schema; the message names segment, offset and reason."""

    condition = "PRAVEGA_MALFORMED_EVENT"
    sql_state = "22000"
    cure = "Set the read option `mode` to `permissive` to see such events, or to `dropmalformed` to leave them out: \
[Bad events](formats/bad-events.md)."


class UnsupportedTypeError(PravegaError):
    """The table's format cannot hold the type of a column; the message names the column."""

    condition = "PRAVEGA_UNSUPPORTED_TYPE"
    sql_state = "429BB"
    cure = "Cast the column, or use another `format`: [Formats](formats/README.md)."


class InvalidSchemaError(PravegaError):
    """A schema cannot describe a table: it cannot be parsed, has values that fit no column, or is not a record."""

    condition = "PRAVEGA_INVALID_SCHEMA"
    sql_state = "42P15"
    cure = "Correct the schema in the registry, or read the stream as `raw`."


class DifferentSchemasError(PravegaError):
    """Streams that a query reads as one table have different formats, or columns that do not fit together."""

    condition = "PRAVEGA_DIFFERENT_SCHEMAS"
    sql_state = "42P15"
    cure = "Read the stream that the message names on its own, or name streams that fit each other with `streams`."


class SchemaNotFoundError(PravegaError):
    """The registry has no such group, schema or encoding id."""

    condition = "PRAVEGA_SCHEMA_NOT_FOUND"
    sql_state = "42704"
    cure = "Give the stream a schema with `CREATE TABLE`, or check that `schema-registry-uri` is the registry that its \
writers use."


class SchemaExistsError(PravegaError):
    """The registry has such a group or schema already."""

    condition = "PRAVEGA_SCHEMA_EXISTS"
    sql_state = "42710"
    cure = "Use another name, or delete the group that is left over."


class IncompatibleSchemaError(PravegaError):
    """The registry's compatibility policy refuses the schema."""

    condition = "PRAVEGA_INCOMPATIBLE_SCHEMA"
    sql_state = "42KDG"
    cure = "Use a schema that the policy allows, or change the policy with the table property `compatibility`."
