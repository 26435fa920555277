"""The client of Pravega's schema registry 0.6.0.

A group holds the schemas of one stream; it is called like the stream, and its namespace like the scope. An event's
header has an encoding id, which stands for a schema version and a codec. Other namespaces are never visible.
"""

from __future__ import annotations

import threading
from typing import Any

from pyspark_pravega.errors import InvalidOptionError, SchemaExistsError, SchemaNotFoundError

from ..closing import ClosedAtEnd
from ..config import ClientConfig
from ..retry import FirstContact, count_repeats
from .http import RegistryRequests, Request, Right
from .registry_types import Compatibility, Encoding, GroupProperties, SchemaInfo, SchemaVersion, VersionInfo

_PAGE = 100


class SchemaRegistry(ClosedAtEnd):
    """The schema groups of one namespace.

    Thread-safe. It is a context manager that closes the connections. It can be pickled; the copy opens connections of
    its own. Nothing is sent before the first call.

    `config`: addresses, credentials, trust and time limits. `namespace`: None is the default namespace, which is
    separate from all named ones. `first_contact` limits the tries until the registry has answered, except of a copy.

    Raises InvalidOptionError if the configuration has no registry address. Any method raises, besides its own errors,
    SchemaNotFoundError if there is no such group, schema or encoding id, AuthenticationError, PermissionDeniedError,
    TlsError, ServerUnavailableError and ServerTimeoutError if the registry does not answer within the configured time,
    and RegistryError for any other refusal.

    Examples
    --------
    >>> schema = SchemaInfo.of_text("Reading", "Avro", '{"type": "record", "name": "Reading", "fields": []}')
    >>> with SchemaRegistry(config, "plant") as registry:
    ...     registry.create_group("temperatures", GroupProperties("Avro", Compatibility("BackwardTransitive")))
    ...     version = registry.add_schema("temperatures", schema)
    ...     encoding_id = registry.encoding_id("temperatures", version)
    """

    def __init__(self, config: ClientConfig, namespace: str | None, first_contact: FirstContact | None = None) -> None:
        self.namespace = namespace
        self._config = config
        self._requests = RegistryRequests(config, namespace, first_contact or FirstContact())
        self._encodings: dict[tuple[str, int], Encoding] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[SchemaRegistry], tuple[ClientConfig, str | None]]:
        return (SchemaRegistry, (self._config, self.namespace))

    def __repr__(self) -> str:
        return f"SchemaRegistry({self._requests.endpoint}, namespace={self.namespace!r})"

    def close(self) -> None:
        """Close the connections. The object cannot be used afterwards."""
        self._requests.close()

    def groups(self) -> dict[str, GroupProperties]:
        """Return the groups of the namespace that the user may read, by name."""
        groups: dict[str, GroupProperties] = {}
        token: str | None = None
        while True:
            query = {"limit": str(_PAGE)} | ({} if token is None else {"continuationToken": token})
            page, next_token = self._requests.ask(Request("GET", "/v1/groups", query), _read_groups_and_token)
            # A group that is being deleted is listed without properties.
            groups |= {name: properties for name, properties in page.items() if properties is not None}
            if not page or next_token == token:
                return groups
            token = next_token

    def group(self, name: str) -> GroupProperties:
        """Return the properties that the group was created with, and its present compatibility."""
        return self._requests.ask(Request.of_group("GET", name), GroupProperties.from_json)

    def create_group(self, name: str, properties: GroupProperties) -> None:
        """Create a group. Raises SchemaExistsError if there is a group of this name."""
        if not name:
            # The server would create a group that no URL can name.
            raise InvalidOptionError("the name of a schema group is empty")
        body = {"groupName": name, "groupProperties": properties.to_json()}
        try:
            with count_repeats() as repeats:
                self._requests.send(Request("POST", "/v1/groups", body=body, group=name, right=Right.CREATE))
        except SchemaExistsError:
            # An earlier try, whose answer was lost, may have created it.
            if repeats == [0] or self.group(name) != properties:
                raise

    def delete_group(self, name: str) -> None:
        """Delete the group and all its schemas. It need not exist."""
        self._requests.send(Request.of_group("DELETE", name, right=Right.DELETE))
        with self._lock:
            self._encodings = {key: value for key, value in self._encodings.items() if key[0] != name}

    def compatibility(self, group: str) -> Compatibility:
        """Return the policy by which the group accepts new schemas."""
        return self.group(group).compatibility

    def set_compatibility(
        self, group: str, compatibility: Compatibility, previous: Compatibility | None = None
    ) -> None:
        """Replace the policy by which the group accepts new schemas.

        `previous`: replace the policy only if it is still this one.

        Raises IncompatibleSchemaError if the policy is not `previous`.
        """
        body = {"compatibility": compatibility.to_json()}
        if previous is not None:
            body["previousCompatibility"] = previous.to_json()
        self._requests.send(Request.of_group("PUT", group, "compatibility", body=body, right=Right.SET_POLICY))

    def add_schema(self, group: str, schema: SchemaInfo) -> VersionInfo:
        """Register a schema, unless the group already has it.

        Returns the version of the schema in the group.

        Raises IncompatibleSchemaError if the group's policy does not allow the change, or the group takes only one
        type; InvalidSchemaError if the registry cannot parse the schema; ServerTimeoutError if a group of format Any
        has the type name in another format, when registry 0.6.0 never answers.
        """
        request = Request.of_group("POST", group, "schemas", body=schema.to_json(), right=Right.ADD_SCHEMA)
        return self._requests.ask(request, VersionInfo.from_json)

    def latest_schemas(self, group: str) -> list[SchemaVersion]:
        """Return the latest schema of each type."""
        return self._requests.ask(Request.of_group("GET", group, "schemas"), _read_schema_versions)

    def versions(self, group: str) -> list[SchemaVersion]:
        """Return all schemas of the group in the order in which they were added, without deleted ones."""
        return self._requests.ask(Request.of_group("GET", group, "schemas/versions"), _read_schema_versions)

    def find_schema_by_id(self, group: str, id: int) -> SchemaInfo:
        """Return the schema with this id (`VersionInfo.id`), even if it was deleted."""
        return self._requests.ask(Request.of_group("GET", group, f"schemas/schema/{id}"), SchemaInfo.from_json)

    def find_version(self, group: str, schema: SchemaInfo) -> VersionInfo | None:
        """Return the version of exactly this schema; None if the group does not have it."""
        request = Request.of_group("POST", group, "schemas/versions/find", body=schema.to_json())
        try:
            return self._requests.ask(request, VersionInfo.from_json)
        except SchemaNotFoundError:
            self.group(group)
            return None

    def delete_schema(self, group: str, id: int) -> None:
        """Remove a schema from the group. Its encoding ids stay valid; if it is added again, it gets a new id."""
        self._requests.send(Request.of_group("DELETE", group, f"schemas/schema/{id}", right=Right.DELETE_SCHEMA))

    def validate(self, group: str, schema: SchemaInfo, compatibility: Compatibility | None = None) -> bool:
        """Return whether a group accepts a schema by a policy (None: its own). For JSON, registry 0.6.0 always does."""
        policy = self.compatibility(group) if compatibility is None else compatibility
        body = {"schemaInfo": schema.to_json(), "compatibility": policy.to_json()}
        request = Request.of_group("POST", group, "schemas/versions/validate", body=body)
        return self._requests.ask(request, lambda reply: bool(reply["valid"]))

    def codecs(self, group: str) -> list[str]:
        """Return the names of the group's codecs. The codec "" (none) is always usable and never listed."""
        request = Request.of_group("GET", group, "codecTypes")
        return self._requests.ask(request, lambda reply: [codec["name"] for codec in reply["codecTypes"]])

    def add_codec(self, group: str, codec: str) -> None:
        """Register a codec, unless the group already has it."""
        body = {"name": codec, "properties": {}}
        self._requests.send(Request.of_group("POST", group, "codecTypes", body=body, right=Right.ADD_CODEC))

    def encoding(self, group: str, id: int) -> Encoding:
        """Return the schema and the codec that an encoding id stands for, as the registry says now."""
        encoding = self._requests.ask(Request.of_group("GET", group, f"encodings/{id}"), Encoding.from_json)
        return self.remember_encoding(group, id, encoding)

    def remember_encoding(self, group: str, id: int, encoding: Encoding) -> Encoding:
        """Remember what an id stands for, as the registry has said in another answer."""
        with self._lock:
            self._encodings[group, id] = encoding
        return encoding

    def encoding_id(self, group: str, version: VersionInfo, codec: str = "") -> int:
        """Return the encoding id of a schema version and a codec, which the registry allocates if it is new.

        `version`: as the registry returned it. `codec`: a codec's name in the registry; "" is none.

        Raises RegistryError with status 412 if the codec is not registered; see `add_codec`.
        """
        # Not remembered: a group that was dropped and created again has the same versions, but no encoding yet.
        body = {"versionInfo": version.to_json(), "codecType": codec}
        request = Request.of_group("PUT", group, "encodings", body=body)
        return self._requests.ask(request, lambda reply: int(reply["encodingId"]))

    def find_known_encoding_id(self, group: str, version: VersionInfo, codec: str) -> int | None:
        """Return the id that stood for a schema version and a codec when this object last asked: only a hint."""
        with self._lock:
            for (of, id), encoding in self._encodings.items():
                if of == group and (encoding.version, encoding.codec) == (version, codec):
                    return id
        return None

    def ping(self) -> None:
        """Ask the registry for a sign of life. Raises the errors of the class if it cannot be reached."""
        self._requests.send(Request("GET", "/ping"))


def _read_groups_and_token(reply: Any) -> tuple[dict[str, GroupProperties | None], str]:
    groups = reply["groups"].items()
    parsed = {
        name: None if properties is None else GroupProperties.from_json(properties) for name, properties in groups
    }
    return parsed, reply["continuationToken"]


def _read_schema_versions(reply: Any) -> list[SchemaVersion]:
    return [SchemaVersion.from_json(schema) for schema in reply["schemas"]]
