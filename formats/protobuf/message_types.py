"""Reads the registry's Protobuf schemas, and finds where a message ends within padded bytes."""

from __future__ import annotations

import base64
import binascii
import functools
import importlib
from collections.abc import Iterable

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
    pool = _Files(name, files).pool()
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


class _Files:
    """Adds the files of a set to a pool, for one message, each after the files that it imports.

    Files that hold only options, like those of code generators and validators, are usually left out of sets. Missing
    files are not imported, and only a missing type makes the schema unusable.
    """

    def __init__(self, message: str, files: Iterable[descriptor_pb2.FileDescriptorProto]) -> None:
        self._message = message
        self._given: dict[str, descriptor_pb2.FileDescriptorProto] = {}
        for file in files:
            if self._given.setdefault(file.name, file) != file:
                raise InvalidSchemaError(f"the Protobuf schema '{message}' has two files named {file.name} that differ")
        self._pool = DescriptorPool()
        self._added: set[str] = set()
        self._missing: set[str] = set()

    def pool(self) -> DescriptorPool:
        """Return a pool with all files. Raises InvalidSchemaError naming what is wrong or missing."""
        for name in self._given:
            self._add(name, ())
        return self._pool

    def _add(self, name: str, within: tuple[str, ...]) -> None:
        if name in self._added:
            return
        if name in within:
            raise InvalidSchemaError(f"the Protobuf schema '{self._message}' has files that import each other: {name}")
        file = self._file(name)
        if file is None:
            self._missing.add(name)
            return
        for needed in file.dependency:
            self._add(needed, (*within, name))
        try:
            self._pool.AddSerializedFile(self._remove_missing(file).SerializeToString())
        except (TypeError, ValueError) as error:
            if self._missing:
                missing = ", ".join(sorted(self._missing))
                raise InvalidSchemaError(
                    f"the Protobuf schema '{self._message}' imports {missing}, which is not in its file descriptor set "
                    f"({error}); register it with a set that has all files"
                ) from None
            raise InvalidSchemaError(
                f"the Protobuf schema '{self._message}' is invalid in file {name}: {error}"
            ) from None
        self._added.add(name)

    def _file(self, name: str) -> descriptor_pb2.FileDescriptorProto | None:
        """Return a file of the set or of Google's, None if there is no such file."""
        if name in self._given:
            return self._given[name]
        module = _MODULES.get(name)
        if module is None:
            return None
        file = descriptor_pb2.FileDescriptorProto()
        importlib.import_module(module).DESCRIPTOR.CopyToProto(file)
        return file

    def _remove_missing(self, file: descriptor_pb2.FileDescriptorProto) -> descriptor_pb2.FileDescriptorProto:
        dependencies = [name for name in file.dependency if name not in self._missing]
        if len(dependencies) == len(file.dependency):
            return file
        reduced = descriptor_pb2.FileDescriptorProto()
        reduced.CopyFrom(file)
        public = [file.dependency[number] for number in file.public_dependency]
        del reduced.dependency[:], reduced.public_dependency[:], reduced.weak_dependency[:]
        reduced.dependency.extend(dependencies)
        reduced.public_dependency.extend(dependencies.index(name) for name in public if name in dependencies)
        return reduced


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
