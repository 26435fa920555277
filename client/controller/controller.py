"""The controller of a Pravega cluster: everything that is not the bytes of a segment.

One class, put together from the groups of calls in the controller_* modules; each knows its rights and
errors.
"""

from __future__ import annotations

from types import TracebackType

from pyspark_pravega.errors import ScopeNotEmptyError, format_count

from ..config import ClientConfig
from ..retry import FirstContact
from .channel import ControllerChannel
from .reader_groups import ReaderGroupCalls
from .scopes import KeyValueTableCalls, ScopeCalls
from .segments import SegmentCalls
from .streams import StreamCalls
from .transactions import CreatedTransaction, EventTimeCalls, TransactionCalls, TransactionStatus

__all__ = ["Controller", "CreatedTransaction", "TransactionStatus"]


class Controller(
    ScopeCalls, KeyValueTableCalls, StreamCalls, SegmentCalls, TransactionCalls, EventTimeCalls, ReaderGroupCalls
):
    """Thread-safe; connects at the first call; usable as a context manager.

    Picklable and safe across fork: the copy connects anew. Besides what their descriptions say, all calls
    raise AuthenticationError, PermissionDeniedError (naming the resource and the right), TlsError, and
    ServerUnavailableError, ServerTimeoutError or ServerFailedError once the configured time is over.
    """

    def __init__(self, config: ClientConfig, first_contact: FirstContact | None = None) -> None:
        self._channel = ControllerChannel(config, first_contact)

    @property
    def config(self) -> ClientConfig:
        """Return the configuration that the controller was made from."""
        return self._channel.config

    def delete_scope(self, scope: str) -> None:
        """Delete an empty scope. Raises ScopeNotFoundError, ScopeNotEmptyError.

        Looks itself whether the scope is empty: a 0.13 controller that refuses to delete a scope has by then
        dropped the tables it keeps about it, so that nothing can be created in the scope any more. Needs
        READ on the scope and on what is in it, besides READ_UPDATE on `prn::/`.
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

    def close(self) -> None:
        """End the connection. Later calls fail."""
        self._channel.close()

    def __enter__(self) -> Controller:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Controller({self.config.controller_uri})"
