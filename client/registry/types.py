"""Values that the schema registry stores: groups, schemas, versions, encodings, compatibility.

The JSON forms are those of the REST interface of registry 0.6.0.
"""

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

    `version` counts the versions of one type from 0, `id` all schemas of the group. An encoding id must be
    asked for with exactly the pair the registry gave out: with another pair it allocates a second id.
    """

    type: str
    format: str
    version: int
    id: int

    def to_json(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "serializationFormat": self.format,
            "version": self.version,
            "id": self.id,
        }

    @classmethod
    def from_json(cls, value: Any) -> VersionInfo:
        return cls(value["type"], value["serializationFormat"], int(value["version"]), int(value["id"]))


@dataclass(frozen=True)
class SchemaInfo:
    """A schema: `type` is the full name of an Avro record or Protobuf message, and free for JSON.

    `format` is Avro, Json, Protobuf, Any or Custom. `data` is UTF-8 text for Avro and JSON, a file
    descriptor set for Protobuf.
    """

    type: str
    format: str
    data: bytes
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_text(cls, type: str, format: str, text: str) -> SchemaInfo:
        """Make a schema of a text, as Avro and JSON schemas are; of Protobuf what `text` gives."""
        if format == "Protobuf":
            return cls(type, format, base64.b64decode(text.partition(" ")[2]))
        return cls(type, format, text.encode())

    @property
    def text(self) -> str:
        """Return the schema as text: of Protobuf the type's name, a blank and the file descriptor set in base64.

        Raises InvalidSchemaError if it is no text.
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
            value["type"],
            value["serializationFormat"]["serializationFormat"],
            data,
            value.get("properties") or {},
        )


@dataclass(frozen=True)
class SchemaVersion:
    """A schema and its place in the group."""

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
        return cls(
            SchemaInfo.from_json(value["schemaInfo"]),
            VersionInfo.from_json(value["versionInfo"]),
            value["codecType"]["name"],
        )


POLICIES = (
    "AllowAny",
    "DenyAll",
    "Backward",
    "BackwardTransitive",
    "Forward",
    "ForwardTransitive",
    "Full",
    "FullTransitive",
    "Advanced",
)


@dataclass(frozen=True)
class Rule:
    """One direction of the policy Advanced: Backward, BackwardTransitive, BackwardTill, Forward, ...

    `till` is the version that the ...Till rules reach back to.
    """

    name: str
    till: VersionInfo | None = None

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name} | ({"versionInfo": self.till.to_json()} if self.till else {})

    @classmethod
    def from_json(cls, value: Any) -> Rule:
        till = value.get("versionInfo")
        return cls(value["name"], None if till is None else VersionInfo.from_json(till))


@dataclass(frozen=True)
class Compatibility:
    """The policy for new schemas of a group: one of POLICIES; `backward` and `forward` belong to Advanced."""

    policy: str = "AllowAny"
    backward: Rule | None = None
    forward: Rule | None = None

    def to_json(self) -> dict[str, Any]:
        if self.policy != "Advanced":
            return {"policy": self.policy}
        advanced: dict[str, Any] = {}
        if self.backward is not None:
            advanced["backwardPolicy"] = {"backwardPolicy": self.backward.to_json()}
        if self.forward is not None:
            advanced["forwardPolicy"] = {"forwardPolicy": self.forward.to_json()}
        return {"policy": self.policy, "advanced": advanced}

    @classmethod
    def from_json(cls, value: Any) -> Compatibility:
        advanced = value.get("advanced") or {}
        backward = (advanced.get("backwardPolicy") or {}).get("backwardPolicy")
        forward = (advanced.get("forwardPolicy") or {}).get("forwardPolicy")
        return cls(
            value["policy"],
            None if backward is None else Rule.from_json(backward),
            None if forward is None else Rule.from_json(forward),
        )


@dataclass(frozen=True)
class GroupProperties:
    """The properties that a group was created with.

    `format` is Avro, Json, Protobuf or Any (Custom names are unreliable in registry 0.6.0). Groups of Json,
    Protobuf and Any can only be created with the policy AllowAny.
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
