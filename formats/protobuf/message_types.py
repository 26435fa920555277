"""Reads the registry's Protobuf schemas, and finds where a message ends within padded bytes."""

from __future__ import annotations

import base64
import binascii
import functools
import importlib
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter

from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message

from pyspark_pravega.errors import InvalidSchemaError

_MODULES = {
    f"google/protobuf/{name}.proto": f"google.protobuf.{name}_pb2"
    for name in "any api descriptor duration empty field_mask source_context struct timestamp type wrappers".split()
}


def read_message_name(text: str) -> str:
    """Return the full name of the message that a schema text is about. Raises InvalidSchemaError."""
    name, blank, _ = text.partition(" ")
    if not name or not blank:
        raise InvalidSchemaError("the Protobuf schema does not say which message it is about")
    return name


@functools.lru_cache(64)
def read_message_type(text: str) -> Descriptor:
    """Return the message that a schema text is about. Raises InvalidSchemaError naming what is wrong or missing."""
    name = read_message_name(text)
    try:
        data = base64.b64decode(text.partition(" ")[2], validate=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(data).file
    except (binascii.Error, DecodeError) as error:
        raise InvalidSchemaError(f"the Protobuf schema '{name}' is not a file descriptor set ({error})") from None
    pool = _make_pool(name, _collect_files(name, files))
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError:
        names = ", ".join(
            f"{file.package}.{message.name}" if file.package else message.name
            for file in files
            for message in file.message_type
        )
        raise InvalidSchemaError(
            f"the Protobuf schema has no message '{name}'; its messages are {names or 'none'}"
        ) from None


_Files = dict[str, descriptor_pb2.FileDescriptorProto]
"""Files by their names."""


def _collect_files(message: str, files: Iterable[descriptor_pb2.FileDescriptorProto]) -> _Files:
    """Return the files of a set, and those of Google that they import. Raises InvalidSchemaError for twins."""
    collected: _Files = {}
    for file in files:
        if collected.setdefault(file.name, file) != file:
            raise InvalidSchemaError(f"the Protobuf schema '{message}' has two files named {file.name} that differ")
    left = list(collected.values())
    while left:
        for name in left.pop().dependency:
            if name in _MODULES and name not in collected:
                collected[name] = descriptor_pb2.FileDescriptorProto()
                importlib.import_module(_MODULES[name]).DESCRIPTOR.CopyToProto(collected[name])
                left.append(collected[name])
    return collected


def _make_pool(message: str, files: _Files) -> DescriptorPool:
    """Return a pool with all files, for one message. Raises InvalidSchemaError naming what is wrong or missing.

    Files that hold only options, like those of code generators and validators, are usually left out of sets. A missing
    file counts as empty, and only a missing type makes the schema unusable.
    """
    try:
        order = list(TopologicalSorter({name: file.dependency for name, file in files.items()}).static_order())
    except CycleError as error:
        names = ", ".join(sorted(set(error.args[1])))
        raise InvalidSchemaError(f"the Protobuf schema '{message}' has files that import each other: {names}") from None
    missing = ", ".join(sorted(set(order) - files.keys()))
    pool = DescriptorPool()
    for name in order:
        file = files.get(name) or descriptor_pb2.FileDescriptorProto(name=name)
        try:
            pool.AddSerializedFile(file.SerializeToString())
        except (TypeError, ValueError) as error:
            reason = f"is invalid in file {name}: {error}"
            if missing:
                reason = (
                    f"imports {missing}, which is not in its file descriptor set ({error}); register it with a set "
                    "that has all files"
                )
            raise InvalidSchemaError(f"the Protobuf schema '{message}' {reason}") from None
    return pool


def find_message_class(descriptor: Descriptor) -> type[Message]:
    """Return the class of a message's values."""
    return message_factory.GetMessageClass(descriptor)


_LONGEST_VARINT = 10
_VARINT, _FIXED64, _LENGTH, _GROUP, _END_GROUP, _FIXED32 = range(6)


def find_length_without_padding(payload: bytes) -> int:
    """Return the length of a message without the NULs after it; for other payloads, the whole length."""
    at, whole = 0, len(payload)
    groups: list[int] = []
    try:
        while at < whole:
            if payload[at] == 0 and not groups:
                return at if payload.count(0, at) == whole - at else whole
            tag, at = _read_varint(payload, at)
            kind = tag & 7
            if kind == _VARINT:
                _, at = _read_varint(payload, at)
            elif kind == _FIXED64:
                at += 8
            elif kind == _LENGTH:
                length, at = _read_varint(payload, at)
                at += length
            elif kind == _FIXED32:
                at += 4
            elif kind == _GROUP:
                groups.append(tag >> 3)
            elif kind != _END_GROUP or not groups or groups.pop() != tag >> 3:
                return whole
    except ValueError:
        pass
    return whole


def _read_varint(payload: bytes, at: int) -> tuple[int, int]:
    """Read the varint at a place; return it and the place after it. Raises ValueError if there is none."""
    number = 0
    for count, byte in enumerate(payload[at : at + _LONGEST_VARINT]):
        number |= (byte & 127) << (7 * count)
        if byte < 128:
            return number, at + count + 1
    raise ValueError("no varint")
