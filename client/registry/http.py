"""Requests over HTTP/1.1 to the schema registry, and the errors that its refusals become."""

from __future__ import annotations

import enum
import ssl
from collections.abc import Mapping
from contextlib import closing
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx

from pyspark_pravega.errors import (
    AuthenticationError,
    IncompatibleSchemaError,
    InvalidOptionError,
    InvalidSchemaError,
    PermissionDeniedError,
    PravegaError,
    ProtocolError,
    RegistryError,
    SchemaExistsError,
    SchemaNotFoundError,
    ServerUnavailableError,
)

from ..config import Endpoint

_KEPT = 64
"""Most idle connections that are kept: many statements may run at the same time, each with several requests."""

_LONGEST_REASON = 300
"""Most characters of the registry's own words in a message."""


class HttpServer:
    """One server, by the address with which all its URLs begin. Thread-safe: no two requests share a connection."""

    def __init__(self, uri: str, context: ssl.SSLContext | None) -> None:
        """Send nothing yet. `context` is for https. Raises InvalidOptionError for an address that no URL can have."""
        base = uri.rstrip("/")
        try:
            httpx.URL(base)
        except httpx.InvalidURL as error:
            raise InvalidOptionError(
                f"the schema registry address {uri} is not valid ({error}); give one such as http://localhost:9092"
            ) from None
        parts = urlsplit(base)
        self.endpoint = Endpoint(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        self._base = base
        # Without the client above it, which writes a line into the log of the program for each request, and follows
        # proxies of the environment: the server belongs to the cluster.
        self._transport = httpx.HTTPTransport(
            # Without https nothing is verified; True would read the system's certificates for nothing.
            verify=False if context is None else context,
            trust_env=False,
            limits=httpx.Limits(max_keepalive_connections=_KEPT, keepalive_expiry=None),
        )
        self._closed = False

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        body: Any,
        headers: Mapping[str, str],
        seconds: float,
    ) -> httpx.Response:
        """Send a request and return its answer, whatever its status.

        `body` is sent as JSON, unless it is None. `seconds` bounds the wait for the connection and each wait for the
        answer. Raises the errors of httpx, and OSError if there is no connection.
        """
        url = f"{self._base}{path}?{urlencode(query)}" if query else f"{self._base}{path}"
        if self._closed:
            raise RuntimeError("the client is closed; connect again")
        timeout = {"timeout": httpx.Timeout(seconds).as_dict()}
        request = httpx.Request(method, url, json=body, headers=headers, extensions=timeout)
        try:
            with closing(self._transport.handle_request(request)) as answer:
                answer.read()
        except httpx.ConnectError as error:
            if (reason := _find_system_error(error)) is not None:
                raise reason from error
            raise
        answer.request = request
        return answer

    def close(self) -> None:
        """Close the connections. Requests that wait for an answer fail, and so do later ones."""
        self._closed = True
        self._transport.close()


def _find_system_error(error: BaseException) -> OSError | None:
    """Return the OSError that prevented a connection; ssl.SSLError is one."""
    cause = error.__cause__ or error.__context__
    return cause if cause is None or isinstance(cause, OSError) else _find_system_error(cause)


class Right(enum.Enum):
    """What a request does with the registry or a group, as words that messages put in front of its name."""

    READ = "read"
    CREATE = "create"
    DELETE = "delete"
    SET_POLICY = "set the policy of"
    ADD_SCHEMA = "add a schema to"
    DELETE_SCHEMA = "delete a schema of"
    ADD_CODEC = "add a codec to"


def make_refusal(
    response: httpx.Response, endpoint: Endpoint, *, namespace: str | None, group: str | None, right: Right
) -> PravegaError:
    """Make the error for a status that is not a success."""
    status = response.status_code
    reason = _read_reason(response)
    path = response.request.url.path
    if group is None:
        target = "the schema registry"
    else:
        target = f"the schema group '{group}' of " + (
            "the default namespace" if namespace is None else f"namespace '{namespace}'"
        )
    if status == 401:
        return AuthenticationError(
            "the schema registry knows no such user, or the password is wrong"
            + (f" ({target})" if group is not None else "")
            + "; check the credentials, and give them in the same place as its address"
        )
    if status == 403:
        return PermissionDeniedError(
            f"the user may not {right.value} {target}; grant {_name_needed_permission(namespace, group, right)}"
        )
    if status == 404 and path.endswith("/v1/groups"):
        return ProtocolError(f"the server at {endpoint} is not a schema registry; check the address")
    if status == 404:
        return SchemaNotFoundError(f"{target} does not exist, or has nothing at {path}{reason}")
    if status == 409:
        if right is Right.CREATE:
            return SchemaExistsError(f"{target} already exists")
        if right is Right.ADD_SCHEMA:
            return IncompatibleSchemaError(
                f"{target} refuses the schema: its compatibility policy does not allow the change, or the "
                f"group takes only one type{reason}"
            )
        return IncompatibleSchemaError(f"{target} was changed by another client in the meantime{reason}")
    if status in (400, 417) and right is Right.ADD_SCHEMA:
        what = "its format differs from the group's" if status == 417 else "it cannot be parsed or is misnamed"
        return InvalidSchemaError(f"{target} refuses the schema: {what}{reason}")
    error = RegistryError(f"the schema registry answered {status} when asked to {right.value} {target}{reason}")
    error.status = status
    error.group = group
    return error


UNAVAILABLE_STATUS = (502, 503, 504)
"""The answers of a proxy whose registry is unreachable; like no answer, they are a ServerUnavailableError."""


def is_transient(error: BaseException) -> bool:
    """Return whether a request that may be repeated is sent again: the registry is unreachable, or answered 500.

    Registry 0.6.0 answers 500 for some seconds while Pravega's containers move to another server ("updateEntries in
    table: _schemaregistry/groups/0" in its log). On secured servers it also answers 500 to the first change after its
    own token for Pravega has expired: it gets a new token, and then sends a buffer that is already freed
    (IllegalReferenceCountException).
    """
    return isinstance(error, ServerUnavailableError) or (isinstance(error, RegistryError) and error.status == 500)


def _read_reason(response: httpx.Response) -> str:
    text = response.text.strip()
    # Internal errors come as HTML pages that say nothing.
    if not text or text.startswith("<"):
        return ""
    return f" ({text[:_LONGEST_REASON]})"


def _name_needed_permission(namespace: str | None, group: str | None, right: Right) -> str:
    """Return the permission to ask for, in the notation of the registry's password file."""
    scope = "prn::/" if namespace is None else f"prn::/namespace:{namespace}"
    if group is None or right is Right.CREATE:
        return f"{scope},READ_UPDATE"
    resource = f"prn::/namespace:{namespace or '/'}/group:{group}"
    if right in (Right.ADD_SCHEMA, Right.DELETE_SCHEMA):
        return f"{resource}/schemas:*,READ_UPDATE"
    if right is Right.ADD_CODEC:
        return f"{resource}/codecs:*,READ"
    return f"{resource},READ" if right is Right.READ else f"{resource},READ_UPDATE"
