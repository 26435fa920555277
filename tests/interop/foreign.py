"""The official Java client and serializers as the other side of a test: what they write, what they read.

One Java process (Foreign.java) serves a whole test run; it is asked by JSON lines. Get it from the fixture `foreign`:

    java = foreign.connect(cluster)
    java.write_avro(scope, "sensor", schema, [("key", {"id": 1})], codec="gzip")
    for event in java.read(scope, "sensor", "avro"): ...

Avro values are in Avro's own JSON encoding: a union's value is `None` or `{"type": value}`, bytes are text of the
characters 0 to 255.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pyspark_pravega.local.state import ClusterInfo
from tests.interop.java_process import JavaError, JavaProcess

Codec = Literal["none", "gzip", "snappy"]
Compatibility = Literal["AllowAny", "FullTransitive"]
Reading = Literal["bytes", "text", "avro", "json", "protobuf", "any"]
Json = Any
Keyed = tuple[str | None, Json]
"""A routing key (None: the writer chooses a random one) and a value."""


@dataclass(frozen=True)
class ForeignReaderGroup:
    """A reader group: the scoped names of its streams, its readers now, and the bytes that they have not read."""

    streams: list[str]
    readers: int
    unread: int


@dataclass(frozen=True)
class ForeignEvent:
    """An event as the Java client read it: `payload` is what is stored, `value` what its deserializer made of it."""

    segment: int
    offset: int
    payload: bytes
    value: Json


@dataclass(frozen=True)
class ForeignCuts:
    """A stream's head and tail as texts of the Java client's stream cuts."""

    head: str
    tail: str


class Foreign(JavaProcess):
    """The Java process."""

    def __init__(self, log: Path) -> None:
        super().__init__("Foreign.java", "foreign.lock", log)

    def connect(self, cluster: ClusterInfo, user: str | None = None) -> ForeignClient:
        """A client of the cluster; with users, `user` must be one of them."""
        connection: dict[str, Json] = {
            "controller": cluster.controller_uri,
            "registry": cluster.registry_uri,
            "trustStore": cluster.ca_file,
        }
        if user is not None:
            connection |= {"user": user, "password": cluster.users[user]}
        return ForeignClient(self, connection)


@dataclass(frozen=True, repr=False)
class ForeignClient:
    """The Java client connected to one cluster as one user. The registry group has the stream's name."""

    foreign: Foreign
    connection: dict[str, Json]

    def create_stream(self, scope: str, stream: str, segments: int = 1) -> None:
        """Create a stream, and the scope if there is none."""
        self._ask("create-stream", scope, stream, segments=segments)

    def create_key_value_table(self, scope: str, name: str, partitions: int, primary: int, secondary: int) -> None:
        """Create a key-value table whose keys have these lengths."""
        self._ask("create-key-value-table", scope, name, partitions=partitions, primary=primary, secondary=secondary)

    def put_entry(self, scope: str, name: str, country: str, id: int, day: str, value: str) -> None:
        """Write an entry under a country (3 bytes) and a number, with a day as its secondary key."""
        self._ask("put-entry", scope, name, country=country, id=id, day=day, value=value)

    def entry(self, scope: str, name: str, country: str, id: int, day: str) -> str | None:
        """Return the value of such a key, or None."""
        found: str | None = self._ask("get-entry", scope, name, country=country, id=id, day=day)["value"]
        return found

    def write_avro(
        self,
        scope: str,
        stream: str,
        schema: Json,
        events: Sequence[Keyed],
        *,
        codec: Codec = "none",
        framed: bool = True,
        transactional: bool = False,
        compatibility: Compatibility = "AllowAny",
    ) -> None:
        """Write with the registry's Avro serializer, or with plain Avro if not `framed`; registers the schema."""
        self._write(
            scope, stream, "avro", events, transactional, codec=codec, framed=framed, compatibility=compatibility,
            schema=_text(schema),
        )  # fmt: skip

    def write_json(
        self,
        scope: str,
        stream: str,
        type_name: str,
        schema: Json,
        events: Sequence[Keyed],
        *,
        codec: Codec = "none",
        framed: bool = True,
        transactional: bool = False,
    ) -> None:
        """Write with the registry's JSON serializer; registers the schema even when not `framed`."""
        self._write(
            scope, stream, "json", events, transactional, codec=codec, framed=framed, compatibility="AllowAny",
            schema=_text(schema), type=type_name,
        )  # fmt: skip

    def write_protobuf(
        self,
        scope: str,
        stream: str,
        type_name: str,
        schema: bytes,
        events: Sequence[tuple[str | None, bytes]],
        *,
        codec: Codec = "none",
    ) -> None:
        """Write messages with the registry's Protobuf serializer; `schema` is a file descriptor set."""
        self._write(
            scope, stream, "protobuf", [(key, value.hex()) for key, value in events], False, codec=codec, framed=True,
            compatibility="AllowAny", schema=base64.b64encode(schema).decode("ascii"), type=type_name,
        )  # fmt: skip

    def write_bytes(
        self, scope: str, stream: str, events: Sequence[tuple[str | None, bytes]], *, transactional: bool = False
    ) -> None:
        """Write payloads as they are."""
        self._write(scope, stream, "bytes", [(key, value.hex()) for key, value in events], transactional)

    def write_text(self, scope: str, stream: str, events: Sequence[Keyed], *, transactional: bool = False) -> None:
        """Write texts in UTF-8."""
        self._write(scope, stream, "text", events, transactional)

    def read(
        self, scope: str, stream: str, as_format: Reading = "bytes", *, schema: Json = None, framed: bool = True
    ) -> list[ForeignEvent]:
        """Read all events there are, segment by segment, each in its order.

        Args:
            as_format: `avro` (with `schema` as the reader's, if given; needed if not `framed`), `json`, `protobuf` (the
                message in hexadecimal), `text`, `bytes` (no value), or `any`: whatever the registry says each event
                is, as JSON.
        """
        answer = self._ask(
            "read", scope, stream, format=as_format, framed=framed, schema=None if schema is None else _text(schema)
        )
        return [
            ForeignEvent(event["segment"], event["offset"], bytes.fromhex(event["payload"]), event["value"])
            for event in answer["events"]
        ]

    def cuts(self, scope: str, stream: str) -> ForeignCuts:
        """Where the stream begins and ends now."""
        answer = self._ask("cuts", scope, stream)
        return ForeignCuts(answer["head"], answer["tail"])

    def note_time(self, scope: str, stream: str, writer: str, events: Sequence[tuple[str, str]], time: int) -> None:
        """Write texts with their keys in one transaction, whose commit notes the time of a writer."""
        listed = [{"key": key, "value": text} for key, text in events]
        self._ask("note-time", scope, stream, writer=writer, events=listed, time=time)

    def time_window(self, scope: str, stream: str, at_least: int) -> int | None:
        """Read all events, and return the lower bound of the reader's time window once it is so large."""
        lower: int | None = self._ask("time-window", scope, stream, atLeast=at_least)["lower"]
        return lower

    def create_reader_group(self, scope: str, stream: str, group: str, *, holding: bool) -> None:
        """Create a reader group; `holding`: it makes checkpoints, and retention keeps what follows the last one.

        Only with checkpoints do readers go on with the segments of a later scaling.
        """
        self._ask("create-reader-group", scope, stream, group=group, holding=holding)

    def read_in_group(
        self, scope: str, group: str, events: int, *, checkpoint: bool = False, more: int = 0
    ) -> tuple[list[str], list[str]]:
        """Read texts with a new reader, and `more` after a checkpoint, which it confirms by reading one more.

        Return those before it, and those after it.
        """
        answer = self._ask("read-in-group", scope, "", group=group, events=events, checkpoint=checkpoint, more=more)
        return answer["before"], answer.get("after", [])

    def checkpoint_reader_group(self, scope: str, group: str) -> None:
        """Make a checkpoint of a reader group without readers."""
        self._ask("checkpoint-reader-group", scope, "", group=group)

    def compact_reader_group(self, scope: str, group: str) -> None:
        """Have Java replace the records of a reader group by its whole state."""
        self._ask("compact-reader-group", scope, "", group=group)

    def reader_group(self, scope: str, group: str) -> ForeignReaderGroup:
        """Return what Java knows of a reader group."""
        answer = self._ask("reader-group", scope, "", group=group)
        return ForeignReaderGroup(answer["streams"], answer["readers"], answer["unread"])

    def delete_reader_group(self, scope: str, group: str) -> None:
        """Delete a reader group."""
        self._ask("delete-reader-group", scope, "", group=group)

    def _write(
        self, scope: str, stream: str, format_name: str, events: Sequence[Keyed], transactional: bool, **more: Json
    ) -> None:
        more["events"] = [{"key": key, "value": value} for key, value in events]
        try:
            self._ask("write", scope, stream, format=format_name, transactional=transactional, **more)
        except JavaError as error:
            # A secured registry's first change after its own token expired; nothing is written before it succeeds.
            if "RegistryExceptions$InternalServerError" not in str(error):
                raise
            self._ask("write", scope, stream, format=format_name, transactional=transactional, **more)

    def _ask(self, operation: str, scope: str, stream: str, **more: Json) -> dict[str, Json]:
        request = {**self.connection, "operation": operation, "scope": scope, "stream": stream, **more}
        return self.foreign.ask(request)


def _text(schema: Json) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)
