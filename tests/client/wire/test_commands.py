"""The wire protocol's codec: golden bytes written by hand from WireCommands.java, round trips, corrupt input."""

from __future__ import annotations

import io
import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.client.wire import commands as wire
from pyspark_pravega.client.wire.fields import FieldReader, decode_modified_utf8, encode_text
from pyspark_pravega.client.wire.replies import (
    REPLY_KINDS,
    AppendSetup,
    AuthTokenCheckFailed,
    DataAppended,
    ErrorMessage,
    Hello,
    InvalidEventNumber,
    KeepAlive,
    NoSuchSegment,
    OperationUnsupported,
    Reply,
    SegmentAttribute,
    SegmentAttributeUpdated,
    SegmentIsSealed,
    SegmentIsTruncated,
    SegmentRead,
    SegmentSealed,
    StreamSegmentInfo,
    WrongHost,
    of_type,
)
from pyspark_pravega.client.wire.table_replies import (
    TableEntriesRead,
    TableEntriesUpdated,
    TableEntry,
    TableKey,
    TableKeyBadVersion,
    TableKeyDoesNotExist,
    TableKeysRead,
    TableKeysRemoved,
    TableRead,
    TableSegmentInfo,
)
from pyspark_pravega.errors import ProtocolError

WRITER = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
WRITER_HEX = "00112233445566778899aabbccddeeff"


def unhex(text: str) -> bytes:
    return bytes.fromhex(text)


REQUESTS = [
    (wire.pack_hello(), "ffffff81 00000008 00000010 00000005"),
    (
        wire.read_segment(7, "a/b/0", 1024, 4096, "tok"),
        "00000009 00000020 0005612f622f30 0000000000000400 00001000 0003746f6b 0000000000000007",
    ),
    (wire.get_segment_info(7, "a", ""), "0000000b 0000000d 0000000000000007 000161 0000"),
    (
        wire.pack_setup_append(7, WRITER, "a", "t"),
        f"00000001 0000001e 0000000000000007 {WRITER_HEX} 000161 000174",
    ),
    (wire.append_block_header(WRITER, 12), f"00000003 0000001c {WRITER_HEX}"),
    (
        wire.append_block_end(9, WRITER, 12, 2, 300),
        f"00000004 0000002c {WRITER_HEX} 0000000c 00000000 00000002 000000000000012c 0000000000000009",
    ),
    (wire.seal_segment(7, "a", "t"), "0000001c 0000000e 0000000000000007 000161 000174"),
    (wire.get_attribute(7, "a", WRITER, ""), f"00000022 0000001d 0000000000000007 000161 {WRITER_HEX} 0000"),
    (
        wire.update_attribute(7, "a", WRITER, (9, wire.NO_EVENT_NUMBER), ""),
        f"00000024 0000002d 0000000000000007 000161 {WRITER_HEX} 0000000000000009 8000000000000000 0000",
    ),
    (wire.get_table_info(7, "a", ""), "00000044 0000000d 0000000000000007 000161 0000"),
    (
        wire.update_table_entries(7, "a", "", [TableEntry(b"k", wire.NOT_EXISTS, b"vv")]),
        "0000004a 00000034 0000000000000007 000161 0000 00000001"
        "0000000d 00000001 6b ffffffffffffffff 00000006 00000002 7676 ffffffffffffffff",
    ),
    (
        wire.remove_table_keys(7, "a", "", [TableKey(b"k", 3)]),
        "0000004c 0000002a 0000000000000007 000161 0000 000000010000000d 00000001 6b 0000000000000003 ffffffffffffffff",
    ),
    (
        wire.read_table(7, "a", "", [b"k"]),
        "0000004e 00000022 0000000000000007 000161 0000 00000001 0000000d 00000001 6b 8000000000000000",
    ),
    (
        wire.read_table_keys(7, "a", "", 10, b"x", b""),
        "00000053 00000022 0000000000000007 000161 0000 0000000a 00000000 00000000 00000001 78 00000000",
    ),
    (
        wire.read_table_entries(7, "a", "", 10, b"x", b"yz"),
        "00000055 00000024 0000000000000007 000161 0000 0000000a 00000000 00000000 00000001 78 00000002 797a",
    ),
]


@pytest.mark.parametrize(("frame", "expected"), REQUESTS)
def test_requests_are_the_bytes_java_would_write(frame: bytes, expected: str) -> None:
    assert frame == unhex(expected)


TRACE = "000474726163"  # the text "trac"

REPLIES: list[tuple[Reply, str]] = [
    (Hello(0, 16, 5), "00000010 00000005"),
    (KeepAlive(-1), ""),
    (AppendSetup(7, "a", WRITER, 9), f"0000000000000007 000161 {WRITER_HEX} 0000000000000009"),
    (
        DataAppended(7, WRITER, 9, 8, 100),
        f"{WRITER_HEX} 0000000000000009 0000000000000008 0000000000000007 0000000000000064",
    ),
    (DataAppended(-1, WRITER, 9, -1, -1), f"{WRITER_HEX} 0000000000000009"),
    (
        SegmentRead(7, "a", 100, False, True, memoryview(b"xyz")),
        "000161 0000000000000064 00 01 00000003 78797a 0000000000000007",
    ),
    (
        StreamSegmentInfo(7, "a", True, True, False, 5, 100, 10),
        "0000000000000007 000161 01 01 00 0000000000000005 0000000000000064 000000000000000a",
    ),
    (
        StreamSegmentInfo(7, "a", True, False, False, 5, 100, 0),
        "0000000000000007 000161 01 00 00 0000000000000005 0000000000000064",
    ),
    (SegmentSealed(7, "a"), "0000000000000007 000161"),
    (SegmentAttribute(7, 5), "0000000000000007 0000000000000005"),
    (SegmentAttributeUpdated(7, True), "0000000000000007 01"),
    (WrongHost(7, "a", "h"), f"0000000000000007 000161 000168 {TRACE}"),
    (SegmentIsSealed(7, "a", 5), f"0000000000000007 000161 {TRACE} 0000000000000005"),
    (SegmentIsSealed(7, "a", -1), "0000000000000007 000161"),
    (NoSuchSegment(7, "a", 5), f"0000000000000007 000161 {TRACE} 0000000000000005"),
    (InvalidEventNumber(7, WRITER, 5), f"{WRITER_HEX} 0000000000000007 {TRACE} 0000000000000005"),
    (SegmentIsTruncated(7, "a", 10, 5), f"0000000000000007 000161 000000000000000a {TRACE} 0000000000000005"),
    (OperationUnsupported(7, "op"), f"0000000000000007 00026f70 {TRACE}"),
    (AuthTokenCheckFailed(7, 1), f"0000000000000007 {TRACE} 00000001"),
    (AuthTokenCheckFailed(7, -1), "0000000000000007"),
    (ErrorMessage(7, "a", "no", 0), "0000000000000007 000161 00026e6f 00000000"),
    (
        TableSegmentInfo(7, "a", 1, 2, 3, 8),
        "0000000000000007 000161 0000000000000001 0000000000000002 0000000000000003 00000008",
    ),
    (TableEntriesUpdated(7, (1, 2)), "0000000000000007 00000002 0000000000000001 0000000000000002"),
    (TableKeysRemoved(7, "a"), "0000000000000007 000161"),
    (
        TableRead(7, "a", (TableEntry(b"k", 3, b"vv"),)),
        "0000000000000007 000161 00000001 0000000d 00000001 6b 0000000000000003 00000006 00000002 7676",
    ),
    (TableKeyDoesNotExist(7, "a"), f"0000000000000007 000161 {TRACE}"),
    (TableKeyBadVersion(7, "a"), f"0000000000000007 000161 {TRACE}"),
    (
        TableKeysRead(7, "a", (TableKey(b"k", 3),), b"ct"),
        "0000000000000007 000161 00000001 0000000d 00000001 6b 0000000000000003 00000002 6374",
    ),
    (
        TableEntriesRead(7, "a", (TableEntry(b"k", -1, b""),), b""),
        "0000000000000007 000161 00000001 0000000d 00000001 6b ffffffffffffffff 00000004 00000000 00000000",
    ),
]


@pytest.mark.parametrize(("reply", "fields"), REPLIES)
def test_replies_are_read_as_java_writes_them(reply: Reply, fields: str) -> None:
    assert wire.decode(reply.command, unhex(fields)) == reply


def test_every_reply_has_a_golden_example() -> None:
    assert {type(reply) for reply, _ in REPLIES} == {*REPLY_KINDS.values()}


def test_a_type_has_one_reply() -> None:
    with pytest.raises(AssertionError, match="has the type of WrongHost"):
        of_type(WrongHost.command)(type("Other", (Reply,), {}))
    assert REPLY_KINDS[WrongHost.command] is WrongHost


@pytest.mark.parametrize(("reply", "fields"), REPLIES)
def test_a_truncated_reply_is_a_protocol_error_or_an_older_form(reply: Reply, fields: str) -> None:
    whole = unhex(fields)
    for size in range(len(whole)):
        try:
            shorter = wire.decode(reply.command, whole[:size])
        except ProtocolError as error:
            assert type(reply).__name__ in str(error)
        else:
            assert type(shorter) is type(reply)  # only fields that older servers leave out were missing


@given(st.sampled_from(list(REPLY_KINDS)), st.binary(max_size=200))
def test_arbitrary_bytes_never_fail_otherwise(command: int, body: bytes) -> None:
    try:
        reply = wire.decode(command, body)
    except ProtocolError:
        return
    assert reply.command == command


def test_an_unknown_reply_type_is_named() -> None:
    with pytest.raises(ProtocolError, match="type 4711"):
        wire.decode(4711, b"")


def test_counts_that_cannot_be_true_are_refused_before_memory_is_taken() -> None:
    with pytest.raises(ProtocolError, match="2,147,483,647 items"):
        wire.decode(TableEntriesUpdated.command, struct.pack(">qi", 7, 2**31 - 1))


def java_write_utf(text: str) -> bytes:
    """DataOutputStream.writeUTF, character by character as its documentation says."""
    out = io.BytesIO()
    units = text.encode("utf-16-be", "surrogatepass")
    for (unit,) in struct.iter_unpack(">H", units):
        if 0x0001 <= unit <= 0x007F:
            out.write(bytes([unit]))
        elif unit <= 0x07FF:
            out.write(bytes([0xC0 | unit >> 6, 0x80 | unit & 0x3F]))
        else:
            out.write(bytes([0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F]))
    return struct.pack(">H", out.tell()) + out.getvalue()


@given(st.text(max_size=50))
def test_text_is_javas_modified_utf8(text: str) -> None:
    assert encode_text(text) == java_write_utf(text)
    assert FieldReader(encode_text(text), "Test").text() == text


def test_text_examples() -> None:
    assert encode_text("\0") == b"\0\2\xc0\x80"
    assert encode_text("\U0001f600") == b"\0\6\xed\xa0\xbd\xed\xb8\x80"
    assert decode_modified_utf8(b"\xed\xa0\xbd\xed\xb8\x80") == "\U0001f600"


def test_text_too_long_for_its_length_field_is_refused() -> None:
    assert len(encode_text("x" * 65535)) == 65537
    with pytest.raises(ProtocolError, match="65,536 bytes"):
        encode_text("x" * 65536)


def test_blocks_must_fit_a_frame_and_hold_an_event() -> None:
    assert len(wire.append_block_header(WRITER, wire.MAX_BLOCK)) + wire.MAX_BLOCK == wire.MAX_FRAME
    for size in (0, wire.MAX_BLOCK + 1):
        with pytest.raises(ProtocolError, match="cannot be appended"):
            wire.append_block_header(WRITER, size)
    with pytest.raises(ProtocolError, match="at least one event"):
        wire.append_block_end(1, WRITER, 10, 0, 1)


def test_a_request_too_large_for_a_frame_is_refused() -> None:
    with pytest.raises(ProtocolError, match="too large"):
        wire.update_table_entries(1, "a", "", [TableEntry(b"k", -1, bytes(wire.MAX_FRAME))])


def test_values_and_keys_stay_out_of_representations() -> None:
    shown = repr(TableEntry(b"k", 3, b"a-secret-value"))
    assert "secret" not in shown
