"""The client of a cluster's controller, one class made of the groups of calls in this folder's other modules."""

from __future__ import annotations

from pyspark_pravega.errors import ScopeNotEmptyError, format_count

from ..config import ClientConfig
from ..retry import FirstContact
from .channel import ControllerChannel
from .reader_group_calls import ReaderGroupCalls
from .scope_calls import KeyValueTableCalls, ScopeCalls
from .segment_calls import SegmentCalls
from .stream_calls import StreamCalls
from .transaction_calls import CreatedTransaction, EventTimeCalls, TransactionCalls, TransactionStatus

__all__ = ["Controller", "CreatedTransaction", "TransactionStatus"]


class Controller(
    ScopeCalls, KeyValueTableCalls, StreamCalls, SegmentCalls, TransactionCalls, EventTimeCalls, ReaderGroupCalls
):
    """The client of a cluster's controller: scopes, streams, transactions, key-value tables, reader groups.

    Thread-safe. Connects at the first call. It is a context manager that closes the connection. A copy, by pickling or
    after a fork, opens its own connection.

    `config`: addresses, credentials, trust, time limits. `first_contact`: limits the tries until a controller answers.

    Any call raises, besides its own errors, AuthenticationError if the credentials are missing or wrong,
    PermissionDeniedError with the resource and the right if the user lacks one, TlsError, and ServerUnavailableError,
    ServerTimeoutError or ServerFailedError when the configured time is over.

    Examples
    --------
    >>> with Controller(ClientConfig("tcp://localhost:9090")) as controller:
    ...     controller.create_scope("plant")
    ...     controller.create_stream(Stream("plant", "temperatures"), StreamConfiguration())
    ...     controller.list_streams("plant")
    ['_MARKtemperatures', 'temperatures']
    """

    def __init__(self, config: ClientConfig, first_contact: FirstContact | None = None) -> None:
        self._channel = ControllerChannel(config, first_contact)

    @property
    def config(self) -> ClientConfig:
        """Return the configuration that the controller was made from."""
        return self._channel.config

    def delete_scope(self, scope: str) -> None:
        """Delete an empty scope.

        The client itself checks whether the scope is empty: a 0.13 controller that refuses to delete a scope has by
        then dropped the tables it keeps about it, so that nothing can be created in the scope any more. Needs READ on
        the scope and on everything in it, besides READ_UPDATE on `prn::/`.

        Raises ScopeNotFoundError, ScopeNotEmptyError.
        """
        tables = self.list_key_value_tables(scope)
        streams = self.list_streams(scope)
        if streams or tables:
            groups = sum(name.startswith("_RG") for name in streams)
            visible = sum(not name.startswith("_") for name in streams)
            raise ScopeNotEmptyError(
                f"scope '{scope}' is not empty: it holds {format_count(visible, 'stream')}, "
                f"{format_count(len(tables), 'key-value table')} and {format_count(groups, 'reader group')}; "
                "delete them first"
            )
        self._delete_scope_unchecked(scope)

    def __repr__(self) -> str:
        return f"Controller({self.config.controller_uri})"
