"""Encodes and decodes the segment store's wire protocol, version 16 down to 5, without I/O.

A frame is `type int32, length int32, fields`, all big-endian; `length` counts the bytes after these eight. Strings are
Java's modified UTF-8 after a 16-bit length, UUIDs two 64-bit halves, booleans one byte. Requests are functions that
return frames; `decode` makes replies. Definitions: `WireCommands.java` and `WireCommandType.java` of Pravega 0.13.0.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence

from pyspark_pravega.errors import ProtocolError

from .fields import HEADER, INT32, INT64, FieldReader, encode_text
from .replies import REPLY_KINDS, Reply, make_reader
from .table_replies import TableEntry, TableKey

WIRE_VERSION = 16
"""Highest protocol version spoken (Pravega 0.13.0)."""

OLDEST_COMPATIBLE_VERSION = 5
"""Lowest protocol version spoken."""

MAX_FRAME = 0x00FFFFFF
"""Largest frame in bytes; the server closes the connection at a larger one."""

MAX_READ = 2 * 1024 * 1024
"""Most bytes that one SegmentRead returns, however many are asked for (`PravegaRequestProcessor.MAX_READ_SIZE`)."""

MIN_READ = 8
"""Fewest bytes that the segment store reads: the answer to a request for fewer has up to this number."""

NO_EVENT_NUMBER = -(2**63)
"""The last event number of a writer that the segment does not know; also the value of an absent attribute."""

ANY_VERSION = NO_EVENT_NUMBER
"""Version of a table key: write in any case."""

NOT_EXISTS = -1
"""Version of a table key: write only if it is absent. Also the version of an absent key in replies."""

MAX_BLOCK = MAX_FRAME - 8 - 16
"""Most bytes of events in one AppendBlock."""

_SETUP_APPEND = 1
_APPEND_BLOCK = 3
_APPEND_BLOCK_END = 4
READ_SEGMENT = 9
_GET_STREAM_SEGMENT_INFO = 11
_SEAL_SEGMENT = 28
_GET_SEGMENT_ATTRIBUTE = 34
_UPDATE_SEGMENT_ATTRIBUTE = 36
_GET_TABLE_SEGMENT_INFO = 68
_UPDATE_TABLE_ENTRIES = 74
_REMOVE_TABLE_KEYS = 76
_READ_TABLE = 78
_READ_TABLE_KEYS = 83
_READ_TABLE_ENTRIES = 85
_HELLO = -127

_BLOCK_HEADER = struct.Struct(">ii16s")
_BLOCK_END = struct.Struct(">ii16siiiqq")
_READ_POSITION = struct.Struct(">qi")
_ATTRIBUTE_VALUES = struct.Struct(">qq")
_TABLE_KEY = struct.Struct(">ii")
_NULL_TABLE_SEGMENT_OFFSET = INT64.pack(-1)

_READERS = {command: (reply.__name__, make_reader(reply)) for command, reply in REPLY_KINDS.items()}


def decode(command: int, body: bytes | bytearray | memoryview) -> Reply:
    """Return the reply of type `command` in a frame's `body`. Raises ProtocolError for wrong types or fields."""
    if command not in _READERS:
        raise ProtocolError(
            f"the server sent a reply of type {command}, which this client does not know; "
            "check that the address is a Pravega segment store of version 0.13 or compatible"
        )
    name, read = _READERS[command]
    return read(FieldReader(body, name))


def _frame(command: int, *fields: bytes) -> bytes:
    body = b"".join(fields)
    if len(body) + HEADER.size > MAX_FRAME:
        raise ProtocolError(
            f"a wire command of {len(body) + HEADER.size:,} bytes is too large; at most {MAX_FRAME:,} are allowed"
        )
    return HEADER.pack(command, len(body)) + body


def _request(command: int, request_id: int, segment: str, token: str, *fields: bytes) -> bytes:
    """Return a request that begins with its id, the segment and the token."""
    return _frame(command, INT64.pack(request_id), encode_text(segment), encode_text(token), *fields)


def pack_hello() -> bytes:
    """Return the first frame in both directions: the versions spoken."""
    return _frame(_HELLO, HEADER.pack(WIRE_VERSION, OLDEST_COMPATIBLE_VERSION))


def read_segment(request_id: int, segment: str, offset: int, length: int, token: str) -> bytes:
    """Ask for up to `length` bytes (at most `MAX_READ` come back) from `offset`, which need not be an event's start.

    At or past the tail of an open segment the server waits for appends: ask beyond the known write offset only to wait.
    """
    return _frame(
        READ_SEGMENT,
        encode_text(segment),
        _READ_POSITION.pack(offset, length),
        encode_text(token),
        INT64.pack(request_id),
    )


def get_segment_info(request_id: int, segment: str, token: str) -> bytes:
    """Ask for the length, the truncation point and the state of a segment."""
    return _request(_GET_STREAM_SEGMENT_INFO, request_id, segment, token)


def pack_setup_append(request_id: int, writer_id: uuid.UUID, segment: str, token: str) -> bytes:
    """Bind a writer id to a segment on this connection. Each segment needs its own: the id is silently bound again."""
    return _frame(_SETUP_APPEND, INT64.pack(request_id), writer_id.bytes, encode_text(segment), encode_text(token))


def append_block_header(writer_id: uuid.UUID, size: int) -> bytes:
    """Return the bytes before `size` bytes of whole framed events, which `append_block_end` must follow directly.

    Raises ProtocolError if the block does not fit into a frame (`MAX_BLOCK`).
    """
    if not 0 < size <= MAX_BLOCK:
        raise ProtocolError(f"a block of {size:,} bytes cannot be appended; 1 to {MAX_BLOCK:,} are allowed")
    return _BLOCK_HEADER.pack(_APPEND_BLOCK, size + 16, writer_id.bytes)


def append_block_end(
    request_id: int, writer_id: uuid.UUID, size: int, event_count: int, last_event_number: int
) -> bytes:
    """Return the bytes after a block: its size, its number of events (at least 1), and the number of its last event."""
    if event_count <= 0:
        raise ProtocolError(f"a block must hold at least one event, not {event_count}")
    return _BLOCK_END.pack(
        _APPEND_BLOCK_END, _BLOCK_END.size - 8, writer_id.bytes, size, 0, event_count, last_event_number, request_id
    )


def seal_segment(request_id: int, segment: str, token: str) -> bytes:
    """Seal a segment against appends. The server requires only a READ token: callers must check the right to write."""
    return _request(_SEAL_SEGMENT, request_id, segment, token)


def get_attribute(request_id: int, segment: str, attribute: uuid.UUID, token: str) -> bytes:
    """Ask for an attribute. The server finds only those that it holds in memory."""
    return _frame(
        _GET_SEGMENT_ATTRIBUTE, INT64.pack(request_id), encode_text(segment), attribute.bytes, encode_text(token)
    )


def update_attribute(request_id: int, segment: str, attribute: uuid.UUID, values: tuple[int, int], token: str) -> bytes:
    """Set an attribute to the first value if it has the second one, `NO_EVENT_NUMBER` if it is absent."""
    return _frame(
        _UPDATE_SEGMENT_ATTRIBUTE,
        INT64.pack(request_id),
        encode_text(segment),
        attribute.bytes,
        _ATTRIBUTE_VALUES.pack(*values),
        encode_text(token),
    )


def get_table_info(request_id: int, segment: str, token: str) -> bytes:
    """Ask for the state of a key-value table's partition, which includes its key length."""
    return _request(_GET_TABLE_SEGMENT_INFO, request_id, segment, token)


def update_table_entries(request_id: int, segment: str, token: str, entries: Sequence[TableEntry]) -> bytes:
    """Write entries atomically; each has the version that is expected (`ANY_VERSION`, `NOT_EXISTS` or exact)."""
    written = [_pack_table_key(entry.key, entry.version) + _pack_table_value(entry.value) for entry in entries]
    fields = (INT32.pack(len(entries)), *written, _NULL_TABLE_SEGMENT_OFFSET)
    return _request(_UPDATE_TABLE_ENTRIES, request_id, segment, token, *fields)


def remove_table_keys(request_id: int, segment: str, token: str, keys: Sequence[TableKey]) -> bytes:
    """Remove keys atomically; each has the version that is expected. With `ANY_VERSION` it need not exist."""
    fields = (_pack_table_keys(keys), _NULL_TABLE_SEGMENT_OFFSET)
    return _request(_REMOVE_TABLE_KEYS, request_id, segment, token, *fields)


def read_table(request_id: int, segment: str, token: str, keys: Sequence[bytes]) -> bytes:
    table_keys = _pack_table_keys([TableKey(key, ANY_VERSION) for key in keys])
    return _request(_READ_TABLE, request_id, segment, token, table_keys)


def read_table_keys(request_id: int, segment: str, token: str, count: int, first: bytes, last: bytes) -> bytes:
    """Ask for a page of keys from `first` to `last`, both included; b"" leaves an end open. `count` is a hint."""
    return _request(_READ_TABLE_KEYS, request_id, segment, token, _pack_page(count, first, last))


def read_table_entries(request_id: int, segment: str, token: str, count: int, first: bytes, last: bytes) -> bytes:
    """Ask for a page of entries from `first` to `last`, both included; b"" leaves an end open. `count` is a hint."""
    return _request(_READ_TABLE_ENTRIES, request_id, segment, token, _pack_page(count, first, last))


def _pack_page(count: int, first: bytes, last: bytes) -> bytes:
    # The server refuses continuation tokens for tables with a fixed key length, as all have: `first` is used instead.
    no_continuation_token = no_prefix = INT32.pack(0)
    bounds = INT32.pack(len(first)) + first + INT32.pack(len(last)) + last
    return INT32.pack(count) + no_continuation_token + no_prefix + bounds


def _pack_table_keys(keys: Sequence[TableKey]) -> bytes:
    return INT32.pack(len(keys)) + b"".join(_pack_table_key(key.key, key.version) for key in keys)


def _pack_table_key(key: bytes, version: int) -> bytes:
    return _TABLE_KEY.pack(4 + len(key) + 8, len(key)) + key + INT64.pack(version)


def _pack_table_value(value: bytes) -> bytes:
    return _TABLE_KEY.pack(4 + len(value), len(value)) + value
