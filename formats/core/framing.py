"""Frames payloads: the header that the registry's serializers put before them, and codecs.

Header: one byte 0x01, then the encoding id as a big-endian int32. An encoding id names a schema version and a codec.
Despite its name, the codec `application/x-snappy-framed` is a raw snappy block, as the official serializer writes it.

NUL bytes may follow a payload after a header, and each format says how it treats them: the official serializer
compresses its whole backing buffer (`CodecFactory` of the schema registry 0.6.0), and Flink's format `pravega-registry`
sends its whole buffer (`ByteBuffer.array()` in `PravegaRegistryRowDataSerializationSchema`).
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import cramjam
import numpy as np

from pyspark_pravega import native
from pyspark_pravega.errors import UnsupportedOperationError

from .events import EventBuffer, EventPositions

PROTOCOL_BYTE = 1
CONFLUENT = "confluent"
FIRST_BYTES = {"registry": PROTOCOL_BYTE, CONFLUENT: 0}
"""How headers begin, by framing. The id of a schema follows in four bytes."""
HEADER_LENGTH = 5

LARGEST_PAYLOAD = 64 * 1024 * 1024
"""Most bytes of a decompressed event. Stored ones have at most 8 MiB: a larger one is broken or a compression bomb."""
_GZIP_MEMBERS = 64
_PIECE = 64 * 1024
_SNAPPY_RATIO = 64
"""More than the largest growth of a snappy block, where 3 bytes become at most 64."""


def make_header(encoding_id: int) -> bytes:
    """Return the header of payloads that are written with this encoding id."""
    return bytes([PROTOCOL_BYTE]) + encoding_id.to_bytes(4, "big", signed=True)


def find_common_encoding_id(events: EventBuffer) -> int | None:
    """Return the encoding id that all events share; None if they differ or are missing, or without native code."""
    module = native.get_module()
    if module is None:
        return None
    encoding_id: int | None = module.common_encoding_id(*events.octets())
    return encoding_id


def read_encoding_ids(events: EventBuffer, framing: str = "registry") -> tuple[EventPositions, dict[int, str]]:
    """Return the encoding id of each event, -1 if it has none, and why events have none."""
    first_byte = FIRST_BYTES[framing]
    ids = read_ids(events, first_byte)
    ids[ids >= 1 << 31] = -1
    unframed = np.flatnonzero(ids < 0).tolist()
    return ids, {at: _explain_unframed(bytes(events.payload(at)[:HEADER_LENGTH]), first_byte) for at in unframed}


def read_ids(events: EventBuffer, first_byte: int) -> EventPositions:
    """Return the big-endian number in the four bytes after the first one; -1 for events that do not begin so."""
    ids = np.full(len(events), -1, np.int64)
    positions = np.flatnonzero(events.lengths >= HEADER_LENGTH)
    if len(positions):
        octets, starts = np.frombuffer(events.data, np.uint8), events.starts[positions]
        numbers = np.zeros(len(starts), np.int64)
        for place in range(1, HEADER_LENGTH):
            numbers = numbers << 8 | octets[starts + place]
        ids[positions] = np.where(octets[starts] == first_byte, numbers, -1)
    return ids


def _explain_unframed(header: bytes, first_byte: int) -> str:
    if not header:
        return "it is empty"
    if len(header) < HEADER_LENGTH:
        return f"it has {len(header)} bytes, fewer than the {HEADER_LENGTH} of a registry header"
    if header[0] == first_byte:
        return "the encoding id in its registry header is negative"
    reason = f"its first byte is 0x{header[0]:02x}, not the 0x{first_byte:02x} of a registry header"
    return f"{reason}, but the zero byte of Confluent's or Apicurio's framing" if header[0] == 0 else reason


def describe_foreign_framing(event: bytes) -> str | None:
    """Return what precedes an event of a Kafka converter that uses a registry, and what to do; None for others.

    After a zero byte, Confluent's framing has an id of 4 bytes. Apicurio's default of earlier versions has 8.
    """
    by_id = ", or read JSON by 'format'='json' and 'framing'='confluent'"
    for name, size, more in (("Apicurio's", 9, ""), ("Confluent's", 5, by_id)):
        if event[0] == 0 and event[size : size + 1] in (b"{", b"["):
            return (
                f"it begins with a zero byte and the schema id {int.from_bytes(event[1:size], 'big')}, as {name} "
                "framing does, before its JSON; let org.apache.kafka.connect.json.JsonConverter write it, or leave out "
                f"the first {size} bytes where events are written{more}"
            )
    if len(event) <= HEADER_LENGTH or event[0] != 0:
        return None
    return (
        f"it begins with a zero byte and the schema id {int.from_bytes(event[1:HEADER_LENGTH], 'big')}, as Confluent's "
        "framing does, and what follows is not JSON; read changes in Avro with 'format'='debezium-avro' and "
        "'framing'='confluent' or 'debezium.avro-schemas'"
    )


class Undecodable(ValueError):
    """Raised for a payload that cannot be decompressed or read. The text is the reason."""

    def __init__(self, reason: str, decompressed: int = 0) -> None:
        super().__init__(reason)
        self.decompressed = decompressed
        """How many bytes were decompressed in vain, as far as that is known."""


def decode_text(payload: bytes) -> str:
    """Return the text of an event. Raises Undecodable if it is not UTF-8."""
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        raise Undecodable(f"it is not UTF-8 text (byte {error.start})") from None


@dataclass(frozen=True)
class Codec:
    """A way to compress payloads. `name` is our name, `registry_name` the schema registry's."""

    name: str
    registry_name: str
    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes], bytes]
    """Raises Undecodable."""

    @property
    def compressed(self) -> bool:
        """Return whether it changes payloads at all."""
        return bool(self.registry_name)


def _keep(payload: bytes) -> bytes:
    return payload


def _gzip(payload: bytes) -> bytes:
    # Without a time in the header the same row gives the same bytes, which resuming a write relies on.
    return gzip.compress(payload, mtime=0)


def _gunzip(payload: bytes) -> bytes:
    parts = []
    size = 0
    rest = payload
    while rest:
        member = zlib.decompressobj(wbits=31)
        try:
            part = member.decompress(rest, LARGEST_PAYLOAD + 1 - size)
        except zlib.error as error:
            raise Undecodable(f"its gzip data is broken ({error})", size + _measure_broken(rest)) from None
        size += len(part)
        if size > LARGEST_PAYLOAD:
            raise Undecodable(_describe_excess(f"more than {LARGEST_PAYLOAD}"), size)
        if not member.eof:
            raise Undecodable("its gzip data is cut off", size)
        parts.append(part)
        if len(parts) > _GZIP_MEMBERS:
            raise Undecodable(f"its gzip data has more than {_GZIP_MEMBERS} members", size)
        rest = member.unused_data
    if not parts:
        raise Undecodable("it should be gzip data but is empty")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _measure_broken(rest: bytes) -> int:
    """Return how many bytes come before the error in gzip data, give or take a piece: zlib keeps them to itself."""
    member, size = zlib.decompressobj(wbits=31), 0
    with suppress(zlib.error):
        while rest:
            size += len(member.decompress(rest, _PIECE))
            rest = member.unconsumed_tail
    return size


def _snappy(payload: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(payload))


def _unsnappy(payload: bytes) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(payload)
        if size > LARGEST_PAYLOAD:
            raise Undecodable(_describe_excess(str(size)))
        if size > _SNAPPY_RATIO * len(payload):
            # Checked first, so that no memory is reserved for bytes that cannot come.
            raise Undecodable(f"its snappy data is broken ({len(payload)} bytes cannot become {size})")
        return bytes(cramjam.snappy.decompress_raw(payload))
    except cramjam.DecompressionError as error:
        raise Undecodable(f"its snappy data is broken ({error})") from None


def _describe_excess(size: str) -> str:
    return f"it would have {size} bytes after decompression; at most {LARGEST_PAYLOAD} are allowed"


CODECS = (
    Codec("none", "", _keep, _keep),
    Codec("gzip", "application/x-gzip", _gzip, _gunzip),
    Codec("snappy", "application/x-snappy-framed", _snappy, _unsnappy),
)


def find_codec(name: str) -> Codec:
    """Return the codec of our or a registry's name; "" is "none". Raises UnsupportedOperationError for custom ones."""
    for codec in CODECS:
        if name in (codec.name, codec.registry_name):
            return codec
    raise UnsupportedOperationError(
        f"the codec '{name}' is not supported; use one of {', '.join(codec.name for codec in CODECS)}"
    )
