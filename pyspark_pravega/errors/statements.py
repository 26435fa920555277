"""Errors of statements: what a user asked for cannot be done in that way."""

from __future__ import annotations

from .root import PravegaError


class InvalidOptionError(PravegaError):
    """An option, table property or conf is unknown, ill-typed or set in a place that does not allow it."""

    condition = "PRAVEGA_INVALID_OPTION"
    sql_state = "42616"
    cure = "Correct the key or the value that the message names. [Options](options.md) lists every key and its places."


class InvalidNameError(PravegaError):
    """A scope, stream or column has a name that Pravega or the format cannot hold."""

    condition = "PRAVEGA_INVALID_NAME"
    sql_state = "42602"
    cure = (
        "Use the name that the message suggests. Names of scopes and streams may have letters, digits, `-` and `.`. In \
SQL write `_` for `-`, and put names with `.` in backticks."
    )


class UnsupportedOperationError(PravegaError):
    """A stream cannot do what the statement asks for."""

    condition = "PRAVEGA_UNSUPPORTED_OPERATION"
    sql_state = "0A000"
    cure = "Do what the message names instead. [SQL](sql.md) lists every statement."


class InvalidScriptError(PravegaError):
    """A script of `pyspark-pravega run` cannot be run as it is; the message names the line."""

    condition = "PRAVEGA_INVALID_SCRIPT"
    sql_state = "42601"
    cure = "Correct the statement that the message names. [Streaming](streaming.md) says what a script may contain."


class StatementCancelledError(PravegaError):
    """The statement was cancelled, for example by Ctrl-C, while it waited for the servers."""

    condition = "PRAVEGA_CANCELLED"
    sql_state = "HY008"
    cure = "Run the statement again. If it was cancelled because it took long, look at the servers, or lower \
`request-timeout` and `retry-timeout`."
