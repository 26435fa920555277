"""Java's versioned serialization: what is written is read again, in as few bytes as Java takes."""

from __future__ import annotations

import pytest

from pyspark_pravega.client.wire.versioned import VersionedReader, VersionedWriter, encode_versioned
from pyspark_pravega.errors import ProtocolError


@pytest.mark.parametrize(
    ("value", "integer", "long", "signed"),
    # As `RevisionDataOutputStream` of Pravega 0.13 writes them.
    [
        (0, "00", "00", "00"),
        (0x1F, "1f", "1f", "1f"),
        (0x20, "20", "20", "2020"),
        (0x3F, "3f", "3f", "203f"),
        (0x40, "40", "4040", "2040"),
        (0x80, "8080", "4080", "2080"),
        (0x3FFF, "bfff", "7fff", "40003fff"),
        (0x4000, "c0004000", "80004000", "40004000"),
        (0x3FFFFFFF, "ffffffff", "bfffffff", "600000003fffffff"),
        (1 << 32, None, "c000000100000000", "6000000100000000"),
    ],
)
def test_numbers_are_compact(value: int, integer: str | None, long: str, signed: str) -> None:
    for write, expected in (("compact_int", integer), ("compact_long", long), ("compact_signed_long", signed)):
        if expected is not None:
            writer = VersionedWriter()
            getattr(writer, write)(value)
            assert writer.getvalue().hex() == expected, write
    if integer is not None:
        assert VersionedReader(bytes.fromhex(integer), "it").compact_int() == value


def test_readers_pass_over_revisions_they_do_not_know() -> None:
    writer = VersionedWriter()
    writer.mapping({"a": 1, "b": 2}, writer.text, lambda number: writer.pack("q", number))
    value = encode_versioned([writer.getvalue(), b"something newer"]) + b"what follows"
    reader = VersionedReader(value, "it")
    fields = reader.revisions()[0]
    assert fields.mapping(fields.text, lambda: fields.unpack("q")[0]) == {"a": 1, "b": 2}
    assert reader.unpack("4B") == tuple(b"what")


def test_what_is_no_such_value_is_an_error_that_names_it() -> None:
    value = encode_versioned([b"\0" * 8], version=1)
    with pytest.raises(ProtocolError, match="a mark does not have the expected form: it begins with"):
        VersionedReader(value, "a mark").revisions()
    for length in range(len(value)):
        with pytest.raises(ProtocolError, match="a mark does not have the expected form: it ends after"):
            VersionedReader(value[:length], "a mark").revisions(version=1)[0].unpack("q")
