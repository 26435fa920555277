"""File descriptor sets for tests, compiled from texts as `protoc` does."""

from __future__ import annotations

import base64
import functools
import tempfile
from pathlib import Path

import grpc_tools
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

_INCLUDED = Path(grpc_tools.__file__).parent / "_proto"


@functools.cache
def descriptor_set(text: str, imports: bool = False) -> bytes:
    """The file descriptor set of a .proto text; with the files it imports only if asked for."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "test.proto").write_text(text)
        target = Path(directory, "set")
        arguments = [f"-I{directory}", f"-I{_INCLUDED}", f"--descriptor_set_out={target}", "test.proto"]
        if imports:
            arguments.append("--include_imports")
        assert protoc.main(["protoc", *arguments]) == 0
        return target.read_bytes()


def schema_text(text: str, message: str) -> str:
    """What `SchemaInfo.text` gives for a message of the .proto text."""
    return f"{message} {base64.b64encode(descriptor_set(text)).decode('ascii')}"


def files_of(data: bytes) -> list[str]:
    """The names of the files in a set."""
    return [file.name for file in descriptor_pb2.FileDescriptorSet.FromString(data).file]
