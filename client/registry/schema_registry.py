"""The client of Pravega's schema registry 0.6.0.

A group holds the schemas of one stream; its name is that of the stream, its namespace that of the scope. An event's
header has an encoding id, which stands for a schema version and a codec. Other namespaces are never visible.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from pyspark_pravega.errors import (
    InvalidOptionError,
    PravegaError,
    ProtocolError,
    SchemaExistsError,
    SchemaNotFoundError,
    ServerTimeoutError,
    ServerUnavailableError,
    Unreached,
)

from .. import tls
from ..config import ClientConfig
from ..credentials import authorization_header
from ..retry import FirstContact, describe_unreached, retry
from .http import (
    UNAVAILABLE_STATUS,
    HttpServer,
    NoAnswerError,
    NotAnsweredError,
    NotTakenError,
    Response,
    Right,
    is_transient,
    refusal,
)
from .types import Compatibility, Encoding, GroupProperties, SchemaInfo, SchemaVersion, VersionInfo

_log = logging.getLogger(__name__)

Parsed = TypeVar("Parsed")

_PAGE = 100
_NEVER_ANSWERED = (
    ". Registry 0.6.0 never answers when a schema is added to a group of format Any that has the type name in another "
    "format"
)


@dataclass(frozen=True)
class _Request:
    """A request, the group that it is about, and the right that it needs there."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    group: str | None = None
    right: Right = Right.READ


class SchemaRegistry:
    """The schema groups of one namespace.

    Thread-safe. It is a context manager that closes the connections. It can be pickled; the copy opens connections of
    its own. Nothing is sent before the first call.

    Parameters
    ----------
    config : ClientConfig
        Addresses, credentials, trust and time limits.
    namespace : str, optional
        None is the default namespace, which is separate from all named ones.
    first_contact : FirstContact, optional
        Limits the tries until the registry has answered; an unpickled copy has no such limit.

    Raises
    ------
    InvalidOptionError
        The configuration has no registry address.
    SchemaNotFoundError
        There is no such group, schema or encoding id. Like the errors below, any method may raise it, besides its own.
    AuthenticationError, PermissionDeniedError, TlsError
    ServerUnavailableError, ServerTimeoutError
        The registry cannot be reached, or does not answer, within the configured time.
    RegistryError
        Any other refusal.

    Examples
    --------
    >>> schema = SchemaInfo.of_text("Reading", "Avro", '{"type": "record", "name": "Reading", "fields": []}')
    >>> with SchemaRegistry(config, "plant") as registry:
    ...     registry.create_group("temperatures", GroupProperties("Avro", Compatibility("BackwardTransitive")))
    ...     version = registry.add_schema("temperatures", schema)
    ...     encoding_id = registry.encoding_id("temperatures", version)
    """

    def __init__(self, config: ClientConfig, namespace: str | None, first_contact: FirstContact | None = None) -> None:
        if config.registry_uri is None:
            raise InvalidOptionError("no schema registry address is set; give one, such as http://localhost:9092")
        self.namespace = namespace
        self._config = config
        self._first_contact = first_contact or FirstContact()
        secure = urlsplit(config.registry_uri).scheme == "https"
        self._http = HttpServer(config.registry_uri, tls.ssl_context(config) if secure else None)
        self._endpoint = self._http.endpoint
        self._encodings: dict[tuple[str, int], Encoding] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> SchemaRegistry:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[type[SchemaRegistry], tuple[ClientConfig, str | None]]:
        return (SchemaRegistry, (self._config, self.namespace))

    def __repr__(self) -> str:
        return f"SchemaRegistry({self._endpoint}, namespace={self.namespace!r})"

    def close(self) -> None:
        """Close the connections. The object cannot be used afterwards."""
        self._http.close()

    # Groups

    def groups(self) -> dict[str, GroupProperties]:
        """Return the groups of the namespace that the user may read, by name."""
        found: dict[str, GroupProperties] = {}
        token: str | None = None
        while True:
            query = {"limit": str(_PAGE)} | ({} if token is None else {"continuationToken": token})
            reply = self._request_json("GET", "/v1/groups", query=query)
            with _check_form("list of groups"):
                page, next_token = reply["groups"], reply["continuationToken"]
                for name, properties in page.items():
                    # A group that is being deleted is listed without properties.
                    if properties is not None:
                        found[name] = GroupProperties.from_json(properties)
            if not page or next_token == token:
                return found
            token = next_token

    def group(self, name: str) -> GroupProperties:
        """Return the properties that the group was created with, and its present compatibility."""
        return self._request_parsed(GroupProperties.from_json, "GET", _group_path(name), group=name)

    def create_group(self, name: str, properties: GroupProperties) -> None:
        """Create a group.

        Raises
        ------
        SchemaExistsError
            There is a group of this name.
        """
        if not name:
            # The server would create a group that no URL can name.
            raise InvalidOptionError("the name of a schema group is empty")
        body = {"groupName": name, "groupProperties": properties.to_json()}
        attempts = 0

        def attempt(seconds: float) -> None:
            nonlocal attempts
            attempts += 1
            self._send(_Request("POST", "/v1/groups", body=body, group=name, right=Right.CREATE), seconds)

        try:
            retry(
                attempt,
                timeout=self._config.retry_timeout,
                transient=is_transient,
                first_contact=self._first_contact,
            )
        except SchemaExistsError:
            # An earlier try, whose answer was lost, may have created it.
            if attempts == 1 or self.group(name) != properties:
                raise

    def delete_group(self, name: str) -> None:
        """Delete the group and all its schemas. It need not exist."""
        self._request("DELETE", _group_path(name), group=name, right=Right.DELETE)
        with self._lock:
            self._encodings = {key: value for key, value in self._encodings.items() if key[0] != name}

    def compatibility(self, group: str) -> Compatibility:
        """Return the policy by which the group accepts new schemas."""
        return self.group(group).compatibility

    def set_compatibility(
        self, group: str, compatibility: Compatibility, previous: Compatibility | None = None
    ) -> None:
        """Replace the policy by which the group accepts new schemas.

        Parameters
        ----------
        group : str
        compatibility : Compatibility
        previous : Compatibility, optional
            Replace the policy only if it is still this one.

        Raises
        ------
        IncompatibleSchemaError
            The policy is not `previous`.
        """
        body = {"compatibility": compatibility.to_json()}
        if previous is not None:
            body["previousCompatibility"] = previous.to_json()
        self._request("PUT", _group_path(group, "compatibility"), body=body, group=group, right=Right.SET_POLICY)

    # Schemas

    def add_schema(self, group: str, schema: SchemaInfo) -> VersionInfo:
        """Register a schema, unless the group already has it.

        Returns
        -------
        VersionInfo
            The version of the schema in the group.

        Raises
        ------
        IncompatibleSchemaError
            The group's policy does not allow the change, or the group takes only one type.
        InvalidSchemaError
            The registry cannot parse the schema.
        ServerTimeoutError
            Registry 0.6.0 never answers if a group of format Any has the type name in another format.
        """
        return self._request_parsed(
            VersionInfo.from_json,
            "POST",
            _group_path(group, "schemas"),
            body=schema.to_json(),
            group=group,
            right=Right.ADD_SCHEMA,
        )

    def latest_schemas(self, group: str, type: str | None = None) -> list[SchemaVersion]:
        """Return the latest schema of each type, or of one type (an empty list if there is no such type)."""
        # The server fails with an internal error if it is asked for an unknown type, so this picks the type itself.
        found = self._request_parsed(_schema_versions, "GET", _group_path(group, "schemas"), group=group)
        return found if type is None else [version for version in found if version.schema.type == type]

    def versions(self, group: str) -> list[SchemaVersion]:
        """Return all schemas of the group in the order in which they were added, without deleted ones."""
        return self._request_parsed(_schema_versions, "GET", _group_path(group, "schemas/versions"), group=group)

    def schema_by_id(self, group: str, id: int) -> SchemaInfo:
        """Return the schema with this id (`VersionInfo.id`), even if it was deleted."""
        path = _group_path(group, f"schemas/schema/{id}")
        return self._request_parsed(SchemaInfo.from_json, "GET", path, group=group)

    def find_version(self, group: str, schema: SchemaInfo) -> VersionInfo | None:
        """Return the version of exactly this schema; None if the group does not have it."""
        path = _group_path(group, "schemas/versions/find")
        try:
            return self._request_parsed(VersionInfo.from_json, "POST", path, body=schema.to_json(), group=group)
        except SchemaNotFoundError:
            self.group(group)
            return None

    def delete_schema(self, group: str, id: int) -> None:
        """Remove a schema from the group. Its encoding ids stay valid; if it is added again, it gets a new id."""
        path = _group_path(group, f"schemas/schema/{id}")
        self._request("DELETE", path, group=group, right=Right.DELETE_SCHEMA)

    def validate(self, group: str, schema: SchemaInfo, compatibility: Compatibility | None = None) -> bool:
        """Return whether the group would accept a schema under a policy (None: its own).

        Registry 0.6.0 calls every JSON schema valid, whatever the policy.
        """
        policy = self.compatibility(group) if compatibility is None else compatibility
        body = {"schemaInfo": schema.to_json(), "compatibility": policy.to_json()}
        path = _group_path(group, "schemas/versions/validate")
        return self._request_parsed(lambda reply: bool(reply["valid"]), "POST", path, body=body, group=group)

    def can_read(self, group: str, schema: SchemaInfo) -> bool:
        """Return whether events of the group's schemas, as its policy guarantees them, can be read with this one."""
        path = _group_path(group, "schemas/versions/canRead")
        return self._request_parsed(
            lambda reply: bool(reply["compatible"]), "POST", path, body=schema.to_json(), group=group
        )

    # Encodings

    def codecs(self, group: str) -> list[str]:
        """Return the names of the group's codecs. The codec "" (none) is always usable and never listed."""

        def names(reply: Any) -> list[str]:
            return [codec["name"] for codec in reply["codecTypes"]]

        return self._request_parsed(names, "GET", _group_path(group, "codecTypes"), group=group)

    def add_codec(self, group: str, codec: str) -> None:
        """Register a codec, unless the group already has it."""
        body = {"name": codec, "properties": {}}
        path = _group_path(group, "codecTypes")
        self._request("POST", path, body=body, group=group, right=Right.ADD_CODEC)

    def encoding(self, group: str, id: int, *, refresh: bool = False) -> Encoding:
        """Return the schema and the codec that an encoding id stands for.

        The registry is asked once in the life of this object, since ids keep their meaning as long as the group exists;
        with `refresh` it is asked again.
        """
        key = (group, id)
        found = self._encodings.get(key)
        if found is None or refresh:
            path = _group_path(group, f"encodings/{id}")
            found = self._request_parsed(Encoding.from_json, "GET", path, group=group)
            self.remember_encoding(group, id, found)
        return found

    def remember_encoding(self, group: str, id: int, encoding: Encoding) -> None:
        """Remember what an id stands for, which the registry has said in other answers."""
        with self._lock:
            self._encodings[group, id] = encoding

    def encoding_id(self, group: str, version: VersionInfo, codec: str = "") -> int:
        """Return the encoding id of a schema version and a codec, which the registry allocates if it is new.

        Parameters
        ----------
        group : str
        version : VersionInfo
            As the registry returned it.
        codec : str
            A codec's name in the registry; "" is none.

        Raises
        ------
        RegistryError
            With status 412 if the codec is not registered; see `add_codec`.
        """
        # Not remembered: a group that was dropped and created again has the same versions, but no encoding yet.
        body = {"versionInfo": version.to_json(), "codecType": codec}
        path = _group_path(group, "encodings")
        return self._request_parsed(lambda reply: int(reply["encodingId"]), "PUT", path, body=body, group=group)

    def known_encoding_id(self, group: str, version: VersionInfo, codec: str) -> int | None:
        """Return the id that stood for a schema version and a codec when this object last asked: only a hint."""
        with self._lock:
            for (of, id), known in self._encodings.items():
                if of == group and (known.version, known.codec) == (version, codec):
                    return id
        return None

    # Requests

    def ping(self) -> None:
        """Ask the registry for a sign of life. Raises the errors of the class if it cannot be reached."""
        self._request("GET", "/ping")

    def _request_parsed(
        self,
        parse: Callable[[Any], Parsed],
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        group: str | None = None,
        right: Right = Right.READ,
    ) -> Parsed:
        reply = self._request_json(method, path, body=body, group=group, right=right)
        with _check_form(f"{method} {path}"):
            return parse(reply)

    def _request_json(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        group: str | None = None,
        right: Right = Right.READ,
    ) -> Any:
        response = self._request(method, path, query=query, body=body, group=group, right=right)
        try:
            return response.json()
        except ValueError as error:
            raise ProtocolError(
                f"the answer of the server at {self._endpoint} to {method} {path} is not JSON; is it a schema registry?"
            ) from error

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        group: str | None = None,
        right: Right = Right.READ,
    ) -> Response:
        """Send a request that is safe to repeat."""
        request = _Request(method, path, query or {}, body, group, right)
        return retry(
            lambda seconds: self._send(request, seconds),
            timeout=self._config.retry_timeout,
            transient=is_transient,
            first_contact=self._first_contact,
        )

    def _send(self, request: _Request, seconds: float) -> Response:
        method, path = request.method, request.path
        parameters = dict(request.query)
        if self.namespace is not None:
            parameters["namespace"] = self.namespace
        authorization = authorization_header(self._config.effective_registry_credentials)
        limit = min(self._config.request_timeout, seconds)
        started = time.monotonic()
        try:
            response = self._http.request(
                method,
                path,
                query=parameters,
                body=request.body,
                headers={"Accept": "application/json"}
                | ({} if authorization is None else {"Authorization": authorization}),
                seconds=limit,
            )
        except (NotTakenError, NotAnsweredError, NoAnswerError, OSError) as error:
            raise self._unreachable(error, method, path, limit) from error
        self._first_contact.note_answer()
        _log.debug("%s %s at %s took %.1f ms", method, path, self._endpoint, (time.monotonic() - started) * 1e3)
        if response.status in UNAVAILABLE_STATUS:
            raise ServerUnavailableError(
                f"the schema registry at {self._endpoint} answered {response.status} ({response.reason})"
            )
        if response.is_success:
            return response
        raise refusal(response, self._endpoint, namespace=self.namespace, group=request.group, right=request.right)

    def _unreachable(self, error: Exception, method: str, path: str, limit: float) -> PravegaError:
        name = f"the schema registry at {self._endpoint}"
        if isinstance(error, NotTakenError):
            return ServerTimeoutError(
                f"{name} did not take the connection within {limit:.3g} s; is it up, and does it speak the "
                "protocol of the address (http:// or https://)?"
            )
        if isinstance(error, NotAnsweredError):
            return ServerTimeoutError(
                f"{name} did not answer {method} {path} within {limit:.3g} s. It hangs or is overloaded: look at its "
                "log, or raise the request timeout" + (_NEVER_ANSWERED if method == "POST" else "")
            )
        if isinstance(error, NoAnswerError):
            return ServerUnavailableError(
                f"{name} closed the connection without an answer; if it expects TLS, use an https:// address"
            )
        if isinstance(error, OSError):
            found = tls.connection_error(error, self._endpoint)
            if not isinstance(found, ServerUnavailableError):
                return found
        why = describe_unreached(error) if isinstance(error, OSError) else None
        unavailable = ServerUnavailableError(
            f"cannot reach {name} ({why or error}); check the address, and that the server runs. A registry whose own "
            "Pravega user lacks rights runs without ever opening its port; its log says so"
        )
        unavailable.unreached = None if why is None else Unreached(name, why)
        return unavailable


def _group_path(group: str, rest: str = "") -> str:
    """Return the path of a group; special characters, `/` and blanks are escaped, and dots in `.` and `..`."""
    name = group.replace(".", "%2E") if group in (".", "..") else quote(group, safe="")
    return f"/v1/groups/{name}/{rest}" if rest else f"/v1/groups/{name}"


def _schema_versions(reply: Any) -> list[SchemaVersion]:
    return [SchemaVersion.from_json(schema) for schema in reply["schemas"]]


@contextmanager
def _check_form(what: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProtocolError(f"the registry's answer to {what} does not have the expected form ({error!r})") from error
