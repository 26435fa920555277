"""The errors a user can see: one root, one condition name each, in the style of Spark's error classes.

Every message names the object concerned, what was wrong with it and what to do. Secrets never enter a
message. All classes take one string so that they survive pickling between Python workers.
"""

from __future__ import annotations

from typing import ClassVar


class PravegaError(Exception):
    """Root of all errors raised by this package.

    `condition` is stable and can be matched by programs; the text may change between releases.
    """

    condition: ClassVar[str] = "PRAVEGA_ERROR"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return f"[{self.condition}] {self.message}"


class InvalidOptionError(PravegaError):
    """An option, table property or conf is unknown, ill-typed or stands where it may not."""

    condition = "PRAVEGA_INVALID_OPTION"


class InvalidNameError(PravegaError):
    """A scope, stream or column name that Pravega or the format cannot hold."""

    condition = "PRAVEGA_INVALID_NAME"


class ScopeNotFoundError(PravegaError):
    condition = "PRAVEGA_SCOPE_NOT_FOUND"


class ScopeExistsError(PravegaError):
    condition = "PRAVEGA_SCOPE_EXISTS"


class ScopeNotEmptyError(PravegaError):
    condition = "PRAVEGA_SCOPE_NOT_EMPTY"


class StreamNotFoundError(PravegaError):
    condition = "PRAVEGA_STREAM_NOT_FOUND"


class StreamExistsError(PravegaError):
    condition = "PRAVEGA_STREAM_EXISTS"


class StreamSealedError(PravegaError):
    condition = "PRAVEGA_STREAM_SEALED"


class SegmentNotFoundError(PravegaError):
    """A segment that never existed, or was deleted with its stream or by truncation."""

    condition = "PRAVEGA_SEGMENT_NOT_FOUND"


class SegmentSealedError(PravegaError):
    """A segment that takes no more events, because its stream was scaled or sealed."""

    condition = "PRAVEGA_SEGMENT_SEALED"


class KeyValueTableNotFoundError(PravegaError):
    condition = "PRAVEGA_KEY_VALUE_TABLE_NOT_FOUND"


class ConditionalUpdateError(PravegaError):
    """A compare-and-set lost: the stored version is not the expected one."""

    condition = "PRAVEGA_CONDITIONAL_UPDATE_FAILED"


class DataLossError(PravegaError):
    """Events that a scan should return were truncated (by retention or by hand)."""

    condition = "PRAVEGA_DATA_LOSS"


class AuthenticationError(PravegaError):
    """Missing or wrong credentials. Never retried."""

    condition = "PRAVEGA_AUTHENTICATION_FAILED"


class PermissionDeniedError(PravegaError):
    """Known user, missing right; the message names the resource and the right. Never retried."""

    condition = "PRAVEGA_PERMISSION_DENIED"


class TlsError(PravegaError):
    """Untrusted or expired certificate, wrong host name, or TLS against a plain port. Never retried."""

    condition = "PRAVEGA_TLS_FAILED"


class ServerUnavailableError(PravegaError):
    """The server could not be reached within the retry time."""

    condition = "PRAVEGA_SERVER_UNAVAILABLE"


class ServerTimeoutError(PravegaError):
    """The server was reached but did not finish within the time allowed."""

    condition = "PRAVEGA_TIMEOUT"


class ServerFailedError(PravegaError):
    """The server reported a failure of its own; the message carries what it said."""

    condition = "PRAVEGA_SERVER_FAILED"


class ProtocolError(PravegaError):
    """A reply that the protocol does not allow at this point."""

    condition = "PRAVEGA_PROTOCOL_ERROR"


class TransactionNotOpenError(PravegaError):
    """The transaction was aborted or timed out before it was committed; nothing of it is visible."""

    condition = "PRAVEGA_TRANSACTION_NOT_OPEN"


class TransactionMismatchError(PravegaError):
    """A transaction holds other bytes than its tasks reported; it was aborted, nothing is visible."""

    condition = "PRAVEGA_TRANSACTION_MISMATCH"


class ClientClosedError(PravegaError):
    """A connection was used after it was closed."""

    condition = "PRAVEGA_CLIENT_CLOSED"


class TransactionOutcomeUnknownError(PravegaError):
    """The servers stopped answering during a commit: all of the transaction will be visible, or nothing."""

    condition = "PRAVEGA_TRANSACTION_OUTCOME_UNKNOWN"


class WriterFencedError(PravegaError):
    """Another attempt of the same task took over the writer."""

    condition = "PRAVEGA_WRITER_FENCED"


class EventTooLargeError(PravegaError):
    """An event over 8 MiB, the limit that official clients can read."""

    condition = "PRAVEGA_EVENT_TOO_LARGE"


class InvalidRowError(PravegaError):
    """A row that cannot be written: null routing key, null in a NOT NULL column, value out of range."""

    condition = "PRAVEGA_INVALID_ROW"


class MalformedEventError(PravegaError):
    """An event that does not fit its schema; names segment, offset and reason."""

    condition = "PRAVEGA_MALFORMED_EVENT"


class UnsupportedTypeError(PravegaError):
    """A column type that the table's format cannot hold; names the column."""

    condition = "PRAVEGA_UNSUPPORTED_TYPE"


class UnsupportedOperationError(PravegaError):
    """A statement that a stream cannot do; says what to use instead."""

    condition = "PRAVEGA_UNSUPPORTED_OPERATION"


class InvalidSchemaError(PravegaError):
    """A schema text that cannot be a table: unparsable, recursive, not a record."""

    condition = "PRAVEGA_INVALID_SCHEMA"


class SchemaNotFoundError(PravegaError):
    """The registry has no such group, schema or encoding id."""

    condition = "PRAVEGA_SCHEMA_NOT_FOUND"


class SchemaExistsError(PravegaError):
    condition = "PRAVEGA_SCHEMA_EXISTS"


class IncompatibleSchemaError(PravegaError):
    """The registry's compatibility policy refuses the schema."""

    condition = "PRAVEGA_INCOMPATIBLE_SCHEMA"


class RegistryError(PravegaError):
    """The schema registry refused a request.

    `status` is the HTTP status, `group` the full name of the group if the request was about one.
    """

    condition = "PRAVEGA_SCHEMA_REGISTRY_ERROR"
    status: int | None = None
    group: str | None = None


class ServiceError(PravegaError):
    """The catalog service could not be started, or ended before it answered."""

    condition = "PRAVEGA_SERVICE_FAILED"


class SetupError(PravegaError):
    """Something on this machine is missing or wrong: Java, a jar, a checksum, a port."""

    condition = "PRAVEGA_SETUP_FAILED"
