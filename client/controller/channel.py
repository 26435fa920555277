"""The connection to the controllers, and the base of the groups of calls.

`ControllerChannel` connects at the first call, sends credentials with every call, repeats calls and moves on to the
next controller. `ControllerCalls` is the base of each group of calls.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import grpc
from google.protobuf.message_factory import GetMessageClass

from pyspark_pravega import errors

from .. import cancellation
from ..closing import ClosedAtEnd
from ..config import DEFAULT_CONTROLLER_PORT, ClientConfig, Endpoint
from ..credentials import make_authorization_header
from ..reminder import Reminder
from ..retry import FirstContact, retry
from ..stream import Stream
from ..tls import find_server_name_override, is_tls, load_grpc_root_certificates, speak_tls
from .controller_pb2 import DESCRIPTOR
from .failures import Purpose, Right, has_hung_up, make_controller_error

_log = logging.getLogger(__name__)

_SERVICE = DESCRIPTOR.services_by_name["ControllerService"]

TRIES_OF_FAILED_CALLS = 3
"""Tries of a call that fails inside the server: enough for a hiccup of its metadata, few for a wrong request."""

_SHORTEST_CALL = 1.0
"""Seconds that a call has even if the retry time is nearly over: with fewer it would only time out."""

_CONNECT_TIMEOUT = 10.0
"""Seconds after which a controller that does not complete the connection is given up for the next one. They are cut to
half of the time for a request, so that this happens before the request itself times out, which is final."""

_FIRST_CONNECT_TIMEOUT = 3.0
"""The same where the time for a first contact is limited: there may be no controller at this address."""

_GREETING_TIMEOUT = 1.5
"""Seconds in which a server that accepts a connection must greet, when gRPC had no answer from it."""

_HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_HTTP2_SETTINGS = b"\x04"
"""The type of the frame with which each HTTP/2 server answers, its fourth byte."""

_LARGEST_REPLY = 64 << 20

SUCCESS = "SUCCESS"
_NO_STREAM = ("NOT_FOUND", "STREAM_NOT_FOUND", "STREAM_DOES_NOT_EXIST")
"""Names of statuses."""

ROOT_RESOURCE = "prn::/"
"""The list of scopes, as access control lists name it."""


def name_scope_resource(scope: str) -> str:
    """Return the name of a scope in access control lists."""
    return f"prn::/scope:{scope}"


class ControllerChannel:
    """Sends calls to whichever of the configured controllers answers. Thread-safe; pickles without its connection.

    Connects at the first call. A forked child drops the parent's connection and opens its own.
    """

    def __init__(self, config: ClientConfig, first_contact: FirstContact | None = None) -> None:
        """Limit the tries until a controller has answered by `first_contact`; an unpickled copy has no such limit."""
        self.config = config
        self._first_contact = first_contact or FirstContact()
        self._endpoints = config.controller_endpoints
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._turn = 0
        self._channels: dict[Endpoint, tuple[grpc.Channel, dict[str, Any]]] = {}
        self._closed = False

    @property
    def endpoint(self) -> Endpoint:
        """Return the address of the controller in use."""
        return self._endpoints[self._turn % len(self._endpoints)]

    def call(self, rpc: str, request: Any, purpose: Purpose) -> tuple[Any, int]:
        """Send a unary call; return the reply and the number of tries.

        If there was more than one try, an earlier one may have taken effect although its reply was lost. A late call
        with `purpose.remind` is sent again, at growing pauses, for as long as calls are retried. Raises the errors of
        `make_controller_error`.
        """
        tries = 0
        late, reminder = False, Reminder(purpose.action)

        def attempt(seconds_left: float) -> Any:
            nonlocal tries, late
            tries += 1
            limit = self.config.request_timeout
            if purpose.remind is not None:
                if late:
                    reminder.note_asked()
                    began = time.monotonic()
                    purpose.remind()
                    seconds_left -= time.monotonic() - began
                limit = min(limit, reminder.pause)
            late = False
            try:
                return self._send(rpc, request, purpose, max(min(limit, seconds_left), _SHORTEST_CALL))
            except errors.ServerTimeoutError:
                late = True
                raise

        def can_retry(error: BaseException) -> bool:
            if isinstance(error, errors.ServerFailedError):
                return purpose.idempotent and tries < TRIES_OF_FAILED_CALLS
            if isinstance(error, errors.ServerTimeoutError):
                return purpose.remind is not None
            return isinstance(error, errors.ServerUnavailableError)

        reply = retry(
            attempt, timeout=self.config.retry_timeout, transient=can_retry, first_contact=self._first_contact
        )
        return reply, tries

    def _send(self, rpc: str, request: Any, purpose: Purpose, seconds: float) -> Any:
        header = make_authorization_header(self.config.credentials)
        metadata = (("authorization", header),) if header is not None else None
        turn = self._turn
        endpoint = self._endpoints[turn % len(self._endpoints)]
        started = time.monotonic()
        try:
            method = self._find_methods(endpoint)[rpc]
            reply = _wait_for_answer(method, request, timeout=seconds, metadata=metadata)
        except grpc.RpcError as failure:
            details = failure.details() or ""
            error = make_controller_error(
                failure.code(), details, purpose, endpoint, with_credentials=header is not None
            )
            if not isinstance(error, errors.ServerUnavailableError | errors.ServerTimeoutError):
                self._first_contact.note_answer()
            if isinstance(error, errors.ServerUnavailableError):
                if not self.config.tls and has_hung_up(details) and is_tls(endpoint):
                    error = errors.TlsError(
                        f"cannot {purpose.action}: the controller at {endpoint} speaks TLS; use an "
                        "address that begins with tls://"
                    )
                else:
                    self._choose_next_controller(turn)
                    says = self._first_contact.open and _describe_stranger(endpoint, self.config.tls)
                    if says:
                        error = errors.ServerUnavailableError(
                            f"cannot {purpose.action}: the server at {endpoint} {says}; give the address of a Pravega "
                            f"controller, whose port is {DEFAULT_CONTROLLER_PORT} by default"
                        )
                        # One of several controllers may be the wrong address alone.
                        error.at_first_contact = len(self._endpoints) == 1
            _log.debug("%s at %s failed: %s", rpc, endpoint, type(error).__name__)
            # gRPC's error must not become the cause: it holds the call with its metadata.
            raise error from None
        except errors.ServerUnavailableError:
            self._choose_next_controller(turn)
            raise
        self._first_contact.note_answer()
        _log.debug("%s at %s took %.1f ms", rpc, endpoint, (time.monotonic() - started) * 1e3)
        return reply

    def _choose_next_controller(self, turn: int) -> None:
        # If several calls fail at the same controller, only the first one moves on.
        with self._lock:
            if self._turn == turn:
                self._turn += 1

    def _find_methods(self, endpoint: Endpoint) -> dict[str, Any]:
        if self._process != os.getpid():
            self._reset()
        with self._lock:
            if self._closed:
                raise errors.ClientClosedError("the controller connection is closed; make a new one")
            if endpoint not in self._channels:
                channel = self._connect(endpoint)
                self._channels[endpoint] = channel, _make_methods(channel)
            return self._channels[endpoint][1]

    def _connect(self, endpoint: Endpoint) -> grpc.Channel:
        longest = _FIRST_CONNECT_TIMEOUT if self._first_contact.open else _CONNECT_TIMEOUT
        options: list[tuple[str, Any]] = [
            ("grpc.max_receive_message_length", _LARGEST_REPLY),
            # Connections to segment stores ignore HTTP proxies too.
            ("grpc.enable_http_proxy", 0),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 2000),
            # Despite its name, the time allowed for one attempt to connect.
            ("grpc.min_reconnect_backoff_ms", int(min(longest, self.config.request_timeout / 2) * 1000)),
            # The server tolerates a ping every 5 minutes.
            ("grpc.keepalive_time_ms", 360_000),
            ("grpc.keepalive_timeout_ms", 20_000),
        ]
        if not self.config.tls:
            return grpc.insecure_channel(str(endpoint), options=options)
        name = find_server_name_override(self.config, endpoint)
        if name is not None:
            options.append(("grpc.ssl_target_name_override", name))
        trust = grpc.ssl_channel_credentials(root_certificates=load_grpc_root_certificates(self.config))
        return grpc.secure_channel(str(endpoint), trust, options=options)

    def close(self) -> None:
        """Close the connections. Later calls fail."""
        with self._lock:
            self._closed = True
            channels, self._channels = self._channels, {}
        if self._process == os.getpid():
            for channel, _ in channels.values():
                channel.close()

    def __getstate__(self) -> ClientConfig:
        return self.config

    def __setstate__(self, config: ClientConfig) -> None:
        self.__init__(config)  # type: ignore[misc]


def _make_methods(channel: grpc.Channel) -> dict[str, Any]:
    """Make what sends each call of the controller, by its name. All are unary."""
    return {
        method.name: channel.unary_unary(
            f"/{_SERVICE.full_name}/{method.name}",
            request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        for method in _SERVICE.methods
    }


def _wait_for_answer(method: Any, request: Any, **options: Any) -> Any:
    """Wait for the answer to a call. Raises Cancelled if the call of this thread is cancelled."""
    if cancellation.find_current() is None:
        return method(request, **options)
    future = method.future(request, **options)
    try:
        with cancellation.interrupt_by(future.cancel):
            return future.result()
    except grpc.FutureCancelledError:
        raise future from None  # by the server or by `close`: it is an RpcError like any other


def _describe_stranger(endpoint: Endpoint, tls: bool) -> str | None:
    """Greet a server that gRPC had no answer from; return what it does that no controller does. None: nothing such.

    gRPC itself reports only the last address of a host, where nothing may listen.
    """
    try:
        connection = socket.create_connection((endpoint.host, endpoint.port), timeout=_GREETING_TIMEOUT)
    except OSError:
        return None
    try:
        with connection, speak_tls(connection, endpoint) if tls else connection as speaking:
            speaking.sendall(_HTTP2_GREETING)
            answer = speaking.recv(9)
    except TimeoutError:
        return "accepts connections, but does not answer as a controller does"
    except OSError:
        return None
    # One that hangs up may be a proxy whose controller is away for a while.
    return "answers, but is not a controller" if answer and answer[3:4] != _HTTP2_SETTINGS else None


def make_stream_not_found_error(stream: Stream) -> errors.StreamNotFoundError:
    return errors.StreamNotFoundError(f"there is no stream '{stream.name}' in scope '{stream.scope}'")


def name_status(reply: Any) -> str:
    """Return the name of a reply's status: SUCCESS if it has none, its number if this client does not know it."""
    fields = reply.DESCRIPTOR.fields_by_name
    field = fields.get("status") or fields.get("result")
    if field is None:
        return SUCCESS
    number = getattr(reply, field.name)
    value = field.enum_type.values_by_number.get(number)
    return str(number) if value is None else value.name


class ControllerCalls(ClosedAtEnd):
    """Base of the groups of calls that make up `Controller`."""

    _channel: ControllerChannel

    def close(self) -> None:
        """Close the connection. Later calls fail."""
        self._channel.close()

    def _call(self, rpc: str, request: Any, purpose: Purpose) -> Any:
        return self._channel.call(rpc, request, purpose)[0]

    def _call_checked(self, rpc: str, request: Any, purpose: Purpose, *, done: str | None = None) -> Any:
        """Send a call and return its reply, which is a success.

        `done` is the status that says to a later try that an earlier one, whose reply was lost, has taken effect.
        """
        reply, tries = self._channel.call(rpc, request, purpose)
        if tries == 1 or name_status(reply) != done:
            self._check(reply, purpose)
        return reply

    def _check(self, reply: Any, purpose: Purpose) -> None:
        """Raise the error for a reply whose status is no success: that of the purpose, or else one without a reason."""
        status = name_status(reply)
        if status != SUCCESS:
            raise purpose.refusals.get(status) or errors.ServerFailedError(
                f"cannot {purpose.action}: the controller at {self._channel.endpoint} answered {status}; see its log"
            )

    def _list_pages(self, rpc: str, request: Any, purpose: Purpose, items: str) -> Iterator[Any]:
        """Yield what a field of the replies holds, over all pages."""
        while True:
            reply = self._call_checked(rpc, request, purpose)
            page = getattr(reply, items)
            # A page may carry a token although no page follows: only an empty page is the end.
            if not page:
                return
            yield from page
            request.continuationToken.CopyFrom(reply.continuationToken)

    def _stream_purpose(
        self,
        action: str,
        stream: Stream,
        right: Right = "READ",
        refusals: Mapping[str, errors.PravegaError] | None = None,
        **more: Any,
    ) -> Purpose:
        """Return the purpose of a call for a stream, with the error if there is none; `more` are other fields of it."""
        resource = f"prn::/scope:{stream.scope}/stream:{stream.name}"
        missing = dict.fromkeys(_NO_STREAM, make_stream_not_found_error(stream))
        return Purpose(f"{action} '{stream}'", resource, right, missing | dict(refusals or {}), **more)


def remind_of_nothing_else() -> None:
    """Let a late call be sent again: the `remind` of a purpose that needs nothing before."""


def describe_lost_reply(tries: int) -> str:
    """Return a remark for "exists already": after more than one try, the first may have taken effect."""
    if tries == 1:
        return ""
    return "; the reply to a first try was lost, so this call itself may have created it"
