"""The schema registry's groups, schemas, versions, encodings and compatibility, in the JSON of its REST API 0.6.0."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark_pravega.errors import InvalidSchemaError, ProtocolError


@dataclass(frozen=True)
class VersionInfo:
    """The type of a schema and its version in a group.

    `version` counts the versions of one type from 0; `id` counts all schemas of the group. Ask for an encoding id with
    exactly the pair that the registry gave out: for another pair it allocates a second id.
    """

    type: str
    format: str
    version: int
    id: int

    def to_json(self) -> dict[str, Any]:
        return {"type": self.type, "serializationFormat": self.format, "version": self.version, "id": self.id}

    @classmethod
    def from_json(cls, value: Any) -> VersionInfo:
        return cls(value["type"], value["serializationFormat"], int(value["version"]), int(value["id"]))


@dataclass(frozen=True)
class SchemaInfo:
    """A schema.

    `type`: the full name of the Avro record or Protobuf message; any name for JSON. `format`: `Avro`, `Json`,
    `Protobuf`, `Any` or `Custom`. `data`: UTF-8 text for Avro and JSON, a file descriptor set for Protobuf.

    Examples
    --------
    >>> SchemaInfo.of_text("Reading", "Json", '{"type": "object"}').data
    b'{"type": "object"}'
    """

    type: str
    format: str
    data: bytes
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_text(cls, type: str, format: str, text: str) -> SchemaInfo:
        """Make a schema from its text, in the form of the property `text`. For `type` and `format` see above."""
        if format == "Protobuf":
            return cls(type, format, base64.b64decode(text.partition(" ")[2]))
        return cls(type, format, text.encode())

    @property
    def text(self) -> str:
        """Return the schema as text; for Protobuf the type's name, a blank and the file descriptor set in base64.

        Raises InvalidSchemaError if the data are not UTF-8.
        """
        if self.format == "Protobuf":
            return f"{self.type} {base64.b64encode(self.data).decode('ascii')}"
        try:
            return self.data.decode()
        except UnicodeDecodeError as error:
            raise InvalidSchemaError(f"the {self.format} schema '{self.type}' is not UTF-8 text") from error

    def to_json(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "serializationFormat": {"serializationFormat": self.format},
            "schemaData": base64.b64encode(self.data).decode("ascii"),
            "properties": dict(self.properties),
        }

    @classmethod
    def from_json(cls, value: Any) -> SchemaInfo:
        try:
            data = base64.b64decode(value["schemaData"], validate=True)
        except binascii.Error as error:
            raise ProtocolError(f"the registry sent a schema '{value['type']}' that is not base64") from error
        return cls(
            value["type"], value["serializationFormat"]["serializationFormat"], data, value.get("properties") or {}
        )


@dataclass(frozen=True)
class SchemaVersion:
    """A schema and its version in the group."""

    schema: SchemaInfo
    version: VersionInfo

    @classmethod
    def from_json(cls, value: Any) -> SchemaVersion:
        return cls(SchemaInfo.from_json(value["schemaInfo"]), VersionInfo.from_json(value["versionInfo"]))


@dataclass(frozen=True)
class Encoding:
    """The schema and codec of an encoding id in an event's header. `codec` is the registry's name, "" for none."""

    schema: SchemaInfo
    version: VersionInfo
    codec: str

    @classmethod
    def from_json(cls, value: Any) -> Encoding:
        of_group = SchemaVersion.from_json(value)
        return cls(of_group.schema, of_group.version, value["codecType"]["name"])


@dataclass(frozen=True)
class Rule:
    """One direction of the policy Advanced: Backward, BackwardTransitive, BackwardTill, Forward and so on.

    `till` is the version that the `...Till` rules reach back to.
    """

    name: str
    till: VersionInfo | None = None

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name} | ({"versionInfo": self.till.to_json()} if self.till else {})

    @classmethod
    def from_json(cls, value: Any) -> Rule:
        till = value.get("versionInfo")
        return cls(value["name"], None if till is None else VersionInfo.from_json(till))


def takes_policy_at_creation(format: str | None) -> bool:
    """Return whether a schema group of a format can be created with any policy.

    Registry 0.6.0 creates groups of other formats than Avro only with AllowAny, and changes the policy afterwards.
    """
    return format == "Avro"


def is_judged_by_registry(format: str) -> bool:
    """Return whether the registry applies the policy of a group to new schemas of a format: not to those in JSON."""
    return format != "Json"


@dataclass(frozen=True)
class Compatibility:
    """The policy by which a group accepts new schemas.

    `policy`: `AllowAny`, `DenyAll`, `Backward`, `Forward`, `Full`, one of these three with `Transitive` behind it, or
    `Advanced`. `backward`, `forward`: the two directions of the policy `Advanced`.

    Examples
    --------
    >>> Compatibility("BackwardTransitive")
    Compatibility(policy='BackwardTransitive', backward=None, forward=None)
    """

    policy: str = "AllowAny"
    backward: Rule | None = None
    forward: Rule | None = None

    def to_json(self) -> dict[str, Any]:
        if self.policy != "Advanced":
            return {"policy": self.policy}
        rules = {"backwardPolicy": self.backward, "forwardPolicy": self.forward}
        advanced = {key: {key: rule.to_json()} for key, rule in rules.items() if rule is not None}
        return {"policy": self.policy, "advanced": advanced}

    @classmethod
    def from_json(cls, value: Any) -> Compatibility:
        advanced = value.get("advanced") or {}
        rules = [(advanced.get(key) or {}).get(key) for key in ("backwardPolicy", "forwardPolicy")]
        return cls(value["policy"], *(None if rule is None else Rule.from_json(rule) for rule in rules))


@dataclass(frozen=True)
class GroupProperties:
    """The properties that a group is created with.

    `format`: `Avro`, `Json`, `Protobuf` or `Any`; custom names are unreliable in registry 0.6.0. `compatibility`:
    groups of Json, Protobuf and Any can only be created with the policy AllowAny. `allow_multiple_types`: whether the
    group takes schemas of several types.

    Examples
    --------
    >>> GroupProperties("Avro", Compatibility("Backward")).allow_multiple_types
    False
    """

    format: str
    compatibility: Compatibility = field(default_factory=Compatibility)
    allow_multiple_types: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "serializationFormat": {"serializationFormat": self.format},
            "compatibility": self.compatibility.to_json(),
            "allowMultipleTypes": self.allow_multiple_types,
            "properties": dict(self.properties),
        }

    @classmethod
    def from_json(cls, value: Any) -> GroupProperties:
        return cls(
            value["serializationFormat"]["serializationFormat"],
            Compatibility.from_json(value["compatibility"]),
            bool(value["allowMultipleTypes"]),
            value.get("properties") or {},
        )
