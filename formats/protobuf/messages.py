"""Reads the registry's Protobuf schemas: a file descriptor set, and the full name of a message in it.

As text (where other formats have their schema text) such a schema is the message's name, a blank, and the set in
base64. The official serializers put only the file of the message itself into the set: files of Google's well-known
types are found here, any other that is missing makes the schema unusable.
"""

from __future__ import annotations

import base64
import binascii
import functools
import importlib

from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message

from pyspark_pravega.errors import InvalidSchemaError

WELL_KNOWN = "google/protobuf/"
_MODULES = {
    f"{WELL_KNOWN}{name}.proto": f"google.protobuf.{name}_pb2"
    for name in ("any", "api", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type")
} | {
    f"{WELL_KNOWN}wrappers.proto": "google.protobuf.wrappers_pb2",
    f"{WELL_KNOWN}descriptor.proto": "google.protobuf.descriptor_pb2",
}


def message_name(text: str) -> str:
    """Return the full name of the message that a schema text is about. Raises InvalidSchemaError."""
    name, blank, _ = text.partition(" ")
    if not name or not blank:
        raise InvalidSchemaError("the Protobuf schema does not say which message it is about")
    return name


@functools.lru_cache(64)
def message_type(text: str) -> Descriptor:
    """Return the message that a schema text is about. Raises InvalidSchemaError naming what is wrong or missing."""
    name = message_name(text)
    try:
        data = base64.b64decode(text.partition(" ")[2], validate=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(data).file
    except (binascii.Error, DecodeError) as error:
        raise InvalidSchemaError(f"the Protobuf schema '{name}' is no file descriptor set ({error})") from None
    pool = DescriptorPool()
    given = {file.name: file for file in files}
    added: set[str] = set()
    for file in files:
        _add(pool, file.name, given, added, name, ())
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError:
        there = ", ".join(
            f"{file.package}.{message.name}" if file.package else message.name
            for file in files
            for message in file.message_type
        )
        raise InvalidSchemaError(
            f"the Protobuf schema has no message '{name}'; its messages are {there or 'none'}"
        ) from None


def _add(
    pool: DescriptorPool,
    name: str,
    given: dict[str, descriptor_pb2.FileDescriptorProto],
    added: set[str],
    message: str,
    within: tuple[str, ...],
) -> None:
    """Add a file behind those that it imports."""
    if name in added:
        return
    if name in within:
        raise InvalidSchemaError(f"the Protobuf schema '{message}' has files that import each other: {name}")
    file = given.get(name)
    if file is None:
        module = _MODULES.get(name)
        if module is None:
            raise InvalidSchemaError(
                f"the Protobuf schema '{message}' imports {name}, which is not in its file descriptor set; register it "
                "with a set that has all files"
            )
        file = descriptor_pb2.FileDescriptorProto()
        importlib.import_module(module).DESCRIPTOR.CopyToProto(file)
    for needed in file.dependency:
        _add(pool, needed, given, added, message, (*within, name))
    try:
        pool.AddSerializedFile(file.SerializeToString())
    except (TypeError, ValueError) as error:
        raise InvalidSchemaError(f"the Protobuf schema '{message}' is wrong in file {name}: {error}") from None
    added.add(name)


def message_class(descriptor: Descriptor) -> type[Message]:
    """Return the class of a message's values."""
    return message_factory.GetMessageClass(descriptor)
