"""The errors a user can see: one root, one condition name each, in the style of Spark's error conditions.

Every message names the object concerned, what was wrong with it and what to do. Secrets never enter a message. All
classes take one string, so that they survive pickling between Python workers.

What a class says here is also the page docs/troubleshooting.md: the docstring is the cause, `cure` what to do.

All are of the class PravegaError. Programs match its condition, which Spark's errors have too:

    try:
        pravega.controller.stream_configuration(Stream("plant", "temperatures"))
    except PravegaError as error:
        print(error.condition, error.sql_state, error.message)
"""

from __future__ import annotations

import re
from typing import ClassVar

_LONGEST_MESSAGE = 8000
_LONGEST_WORD = 400
"""Longer ones are names and values, of which the ends are enough."""
_LONG_WORD = re.compile(rf"\S{{{_LONGEST_WORD + 1},}}")


def shorten(text: str, longest: int = 200) -> str:
    """Return a text as messages show it: without its middle when it has more than `longest` characters."""
    if len(text) <= longest:
        return text
    end = longest // 4
    return f"{text[: longest - end]}... ({len(text):,} characters) ...{text[-end:]}"


class PravegaError(Exception):
    """Something went wrong that has no condition of its own; the message says what."""

    condition: ClassVar[str] = "PRAVEGA_ERROR"
    """Stable, for programs to match; the text of a message may change between releases."""
    sql_state: ClassVar[str] = "KD000"
    """The SQLSTATE of the condition, one of those that Spark lists."""
    cure: ClassVar[str] = "Do what the message says."

    def __init__(self, message: str) -> None:
        # Nobody reads 100 kB, and they would stand in logs, plans and the web interface too.
        self.message = shorten(_LONG_WORD.sub(lambda word: shorten(word[0]), message), _LONGEST_MESSAGE)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"[{self.condition}] {self.message}"


class InvalidOptionError(PravegaError):
    """An option, table property or conf is unknown, ill-typed or stands where it may not."""

    condition = "PRAVEGA_INVALID_OPTION"
    sql_state = "42616"
    cure = "Correct the key or the value that the message names. [Options](options.md) lists every key and its places."


class InvalidNameError(PravegaError):
    """A scope, stream or column has a name that Pravega or the format cannot hold."""

    condition = "PRAVEGA_INVALID_NAME"
    sql_state = "42602"
    cure = "Take the name that the message suggests. Scopes and streams take letters, digits, `-` and `.`; put names \
with `-` or `.` in backticks."


class ScopeNotFoundError(PravegaError):
    """There is no such scope. In SQL this is Spark's `SCHEMA_NOT_FOUND`."""

    condition = "PRAVEGA_SCOPE_NOT_FOUND"
    sql_state = "42704"
    cure = "Look at `SHOW NAMESPACES IN pravega`, and create it with `CREATE NAMESPACE`."


class ScopeExistsError(PravegaError):
    """There is such a scope already. In SQL this is Spark's `SCHEMA_ALREADY_EXISTS`."""

    condition = "PRAVEGA_SCOPE_EXISTS"
    sql_state = "42P06"
    cure = "Use another name, or `CREATE NAMESPACE IF NOT EXISTS`."


class ScopeNotEmptyError(PravegaError):
    """A scope that still has streams cannot be dropped. In SQL this is Spark's `SCHEMA_NOT_EMPTY`."""

    condition = "PRAVEGA_SCOPE_NOT_EMPTY"
    sql_state = "2BP01"
    cure = "Drop its tables first, or use `DROP NAMESPACE ... CASCADE`."


class StreamNotFoundError(PravegaError):
    """There is no such stream. In SQL this is Spark's `TABLE_OR_VIEW_NOT_FOUND`."""

    condition = "PRAVEGA_STREAM_NOT_FOUND"
    sql_state = "42P01"
    cure = "Look at `SHOW TABLES IN pravega.<scope>`. A stream that was dropped while a query read it is not there."


class StreamExistsError(PravegaError):
    """There is such a stream already. In SQL this is Spark's `TABLE_OR_VIEW_ALREADY_EXISTS`."""

    condition = "PRAVEGA_STREAM_EXISTS"
    sql_state = "42P07"
    cure = "Use another name, or `CREATE TABLE IF NOT EXISTS`."


class StreamSealedError(PravegaError):
    """The stream was sealed: it can be read, and takes no more events."""

    condition = "PRAVEGA_STREAM_SEALED"
    sql_state = "55000"
    cure = "Write to another stream. A sealed stream cannot be opened again."


class SegmentNotFoundError(PravegaError):
    """A segment never existed, or was deleted with its stream or by truncation."""

    condition = "PRAVEGA_SEGMENT_NOT_FOUND"
    sql_state = "42704"
    cure = "Run the statement again: it then starts from the segments that the stream has now."


class SegmentSealedError(PravegaError):
    """A segment takes no more events, because its stream was scaled or sealed."""

    condition = "PRAVEGA_SEGMENT_SEALED"
    sql_state = "55000"
    cure = "Run the statement again: it then writes to the segments that the stream has now."


class KeyValueTableNotFoundError(PravegaError):
    """There is no such key-value table. The commit log of a scope's tables is one."""

    condition = "PRAVEGA_KEY_VALUE_TABLE_NOT_FOUND"
    sql_state = "42704"
    cure = "Run the statement again; a commit log that is missing is created by the next `INSERT`."


class ConditionalUpdateError(PravegaError):
    """A compare-and-set lost: the stored version is not the expected one, because somebody else was faster."""

    condition = "PRAVEGA_CONDITIONAL_UPDATE_FAILED"
    sql_state = "40001"
    cure = "Run the statement again."


class DataLossError(PravegaError):
    """Events that a scan should return were truncated, by retention or by hand."""

    condition = "PRAVEGA_DATA_LOSS"
    sql_state = "KD000"
    cure = "Start from a later position, or set the read option `fail-on-data-loss` to `false` to read what is left. \
A longer `retention.minimum` keeps events until they are read, and so does a `consumer`: \
[Streaming](streaming.md#when-retention-was-faster)."


class CheckpointError(PravegaError):
    """The checkpoint of a streaming query does not fit the stream or the table that the query reads."""

    condition = "PRAVEGA_CHECKPOINT_MISMATCH"
    sql_state = "55019"
    cure = "Do what the message says. A query with a new checkpoint location begins anew, where its start options say."


class AuthenticationError(PravegaError):
    """The credentials are missing or wrong. Such a call is not tried again."""

    condition = "PRAVEGA_AUTHENTICATION_FAILED"
    sql_state = "28000"
    cure = "Check `security.username` and `security.password`, or `security.auth-type` and `security.auth-token`. \
`pyspark-pravega doctor` tries them."


class PermissionDeniedError(PravegaError):
    """The user is known and lacks a right; the message names the resource and the right."""

    condition = "PRAVEGA_PERMISSION_DENIED"
    sql_state = "42501"
    cure = "Have the right granted that the message names."


class TlsError(PravegaError):
    """A certificate is untrusted, expired or of another host, or TLS meets a plain port."""

    condition = "PRAVEGA_TLS_FAILED"
    sql_state = "08001"
    cure = "Set `security.trust-store` to a PEM file with the authority of the servers' certificates, and use `tls://` \
with servers that have TLS. See [Deployment](deployment.md)."


class ServerUnavailableError(PravegaError):
    """The server could not be reached within the retry time."""

    condition = "PRAVEGA_SERVER_UNAVAILABLE"
    sql_state = "08001"
    cure = "Check the address, and that the server runs: `pyspark-pravega doctor`. A server that is away for longer \
than `retry-timeout` needs a longer one."


class ServerTimeoutError(PravegaError):
    """The server was reached and did not finish within the time allowed."""

    condition = "PRAVEGA_TIMEOUT"
    sql_state = "HYT00"
    cure = "Raise `request-timeout`, or look at the load and the log of the server."


class ServerFailedError(PravegaError):
    """The server reported a failure of its own; the message carries what it said."""

    condition = "PRAVEGA_SERVER_FAILED"
    sql_state = "58000"
    cure = "Look into the log of the server that the message names."


class ProtocolError(PravegaError):
    """A reply that the protocol does not allow at this point."""

    condition = "PRAVEGA_PROTOCOL_ERROR"
    sql_state = "08P01"
    cure = (
        "Check that the address is that of a Pravega 0.13 controller, or of a schema registry 0.6, and that no proxy \
stands between."
    )


class TransactionNotOpenError(PravegaError):
    """The transaction was aborted or timed out before it was committed; nothing of it is visible."""

    condition = "PRAVEGA_TRANSACTION_NOT_OPEN"
    sql_state = "25000"
    cure = "Run the statement again. One that runs longer than `transaction.timeout` needs a longer one."


class TransactionMismatchError(PravegaError):
    """A transaction holds other bytes than its tasks reported; it was aborted, nothing is visible."""

    condition = "PRAVEGA_TRANSACTION_MISMATCH"
    sql_state = "40000"
    cure = "Run the statement again."


class ClientClosedError(PravegaError):
    """A connection was used after it was closed."""

    condition = "PRAVEGA_CLIENT_CLOSED"
    sql_state = "08003"
    cure = "Run the statement again. It happens to statements that run while the session stops."


class TransactionOutcomeUnknownError(PravegaError):
    """The servers stopped answering during a commit: all of the transaction will be visible, or nothing."""

    condition = "PRAVEGA_TRANSACTION_OUTCOME_UNKNOWN"
    sql_state = "08007"
    cure = "Wait until the servers answer, and look whether the rows are there before you run the statement again."


class WriterFencedError(PravegaError):
    """Another attempt of the same task took over the writer."""

    condition = "PRAVEGA_WRITER_FENCED"
    sql_state = "40000"
    cure = "Nothing: the other attempt goes on. If the whole statement failed, run it again."


class ConsumerInUseError(PravegaError):
    """A consumer's name belongs to another query, stream or reader group."""

    condition = "PRAVEGA_CONSUMER_IN_USE"
    sql_state = "55006"
    cure = "Give each query a `consumer` of its own. `pyspark-pravega consumers list` shows those that there are."


class ConsumerNotFoundError(PravegaError):
    """There is no such consumer, or it was dropped while a query used it."""

    condition = "PRAVEGA_CONSUMER_NOT_FOUND"
    sql_state = "42704"
    cure = "Look at `pyspark-pravega consumers list`. A query makes its consumer when it is started again."


class QueryFencedError(PravegaError):
    """Another run of a streaming query, or another batch under its number, has written to the table in its place."""

    condition = "PRAVEGA_QUERY_FENCED"
    sql_state = "40000"
    cure = "Stop the other run, if it is there by mistake. A checkpoint that was copied, or taken back to an older \
state, cannot be gone on with: start the query with a new one, which makes it a new query."


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


class UnsupportedOperationError(PravegaError):
    """A stream cannot do what the statement asks for."""

    condition = "PRAVEGA_UNSUPPORTED_OPERATION"
    sql_state = "0A000"
    cure = "Do what the message names instead. [SQL](sql.md) lists every statement."


class InvalidSchemaError(PravegaError):
    """A schema text cannot be a table: it cannot be parsed, is recursive, or is no record."""

    condition = "PRAVEGA_INVALID_SCHEMA"
    sql_state = "42P15"
    cure = "Correct the schema in the registry, or read the stream as `raw`."


class DifferentSchemasError(PravegaError):
    """Streams that a query reads as one have different formats, or columns that do not fit each other."""

    condition = "PRAVEGA_DIFFERENT_SCHEMAS"
    sql_state = "42P15"
    cure = "Read the stream that the message names by itself, or name those that fit each other with `streams`."


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
    cure = "Use another name, or delete the group that is left."


class IncompatibleSchemaError(PravegaError):
    """The registry's compatibility policy refuses the schema."""

    condition = "PRAVEGA_INCOMPATIBLE_SCHEMA"
    sql_state = "42KDG"
    cure = "Make a schema that the policy allows, or change the policy: the table property `compatibility`."


class RegistryError(PravegaError):
    """The schema registry refused a request."""

    condition = "PRAVEGA_SCHEMA_REGISTRY_ERROR"
    sql_state = "58000"
    cure = "Look into the log of the schema registry."
    status: int | None = None
    """HTTP status of the answer."""
    group: str | None = None
    """Full name of the schema group, if the request was about one."""


class ServiceError(PravegaError):
    """The catalog service could not be started, or ended before it answered."""

    condition = "PRAVEGA_SERVICE_FAILED"
    sql_state = "58000"
    cure = "Run the statement again; the service is started anew. If it does not start, name a Python that has \
pyspark-pravega installed by `PYSPARK_PYTHON` or the catalog's conf `python`."


class InvalidScriptError(PravegaError):
    """A script of `pyspark-pravega run` cannot be run as it is; the message names the line."""

    condition = "PRAVEGA_INVALID_SCRIPT"
    sql_state = "42601"
    cure = "Correct the statement that the message names. [Streaming](streaming.md) says what a script may have."


class StatementCancelledError(PravegaError):
    """The statement was cancelled, for example by Ctrl-C, while it waited for the servers."""

    condition = "PRAVEGA_CANCELLED"
    sql_state = "HY008"
    cure = "Run the statement again. If it was cancelled because it took long, look at the servers, or lower \
`request-timeout` and `retry-timeout`."


class SetupError(PravegaError):
    """Something on this machine is missing or wrong: Java, a jar, a checksum, a port."""

    condition = "PRAVEGA_SETUP_FAILED"
    sql_state = "F0000"
    cure = "`pyspark-pravega doctor` looks at everything and says what to do."


class InternalError(PravegaError):
    """A defect of this package; the driver's standard error has the details."""

    condition = "PRAVEGA_INTERNAL_ERROR"
    sql_state = "XX000"
    cure = "Report it, with the details."
