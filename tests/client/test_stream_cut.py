"""Stream cuts as text: what Java writes is read, what is written Java reads, and nonsense is named."""

from __future__ import annotations

import base64
import gzip
import pickle
import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.client.stream import Stream, make_segment_id
from pyspark_pravega.client.stream_cut import UNBOUNDED, StreamCut
from pyspark_pravega.errors import InvalidOptionError
from pyspark_pravega.local.jars.cache import provide_class_path
from pyspark_pravega.local.jars.lock_file import SERVERS_LOCK, read_lock
from pyspark_pravega.local.java import find_java

INTEROP = Path(__file__).parents[1] / "interop"

SEGMENT_IDS = st.builds(make_segment_id, st.integers(0, (1 << 31) - 1), st.integers(0, (1 << 31) - 1))
CUTS = st.builds(
    StreamCut,
    st.just(Stream("my.scope-1", "my-stream")),
    st.dictionaries(SEGMENT_IDS, st.integers(0, (1 << 63) - 1), max_size=20),
)


def shown(cut: StreamCut) -> str:
    """A cut as the Java program prints it."""
    return " ".join([str(cut.stream), *(f"{segment}={cut.positions[segment]}" for segment in sorted(cut.positions))])


def java_vectors() -> list[tuple[str, str]]:
    lines = (INTEROP / "vectors" / "stream_cuts.tsv").read_text().splitlines()
    return [(text, positions) for text, _, positions in (line.partition("\t") for line in lines)]


def text_of(plain: str) -> str:
    return base64.b64encode(gzip.compress(plain.encode(), mtime=0)).decode()


def test_reads_what_java_wrote() -> None:
    *cuts, unbounded = java_vectors()
    assert len(cuts) == 4
    for text, positions in cuts:
        assert shown(StreamCut.from_text(text)) == positions
    assert unbounded == (UNBOUNDED, "")


@pytest.mark.slow
def test_java_reads_what_we_write() -> None:
    cuts = [StreamCut.from_text(text) for text, positions in java_vectors() if positions]
    java = find_java()
    jars = provide_class_path(read_lock(SERVERS_LOCK), java=java, report=print)
    program = [str(java.executable), "-cp", ":".join(map(str, jars)), str(INTEROP / "java" / "Vectors.java"), "read"]
    ran = subprocess.run([*program, *(cut.to_text() for cut in cuts)], capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines() == [shown(cut) for cut in cuts], ran.stderr


@given(CUTS)
def test_round_trip(cut: StreamCut) -> None:
    assert StreamCut.from_text(cut.to_text()) == cut
    assert pickle.loads(pickle.dumps(cut)) == cut


def test_equal_cuts_have_equal_text_and_hash() -> None:
    stream = Stream("s", "t")
    one = StreamCut(stream, {1: 10, 2: 20})
    other = StreamCut(stream, {2: 20, 1: 10})
    assert (one, hash(one), one.to_text()) == (other, hash(other), other.to_text())
    assert one != StreamCut(stream, {1: 10, 2: 21})
    assert one != StreamCut(Stream("s", "u"), {1: 10, 2: 20})


def test_a_cut_does_not_change_with_the_mapping_it_was_made_of() -> None:
    positions = {0: 1}
    cut = StreamCut(Stream("s", "t"), positions)
    positions[0] = 2
    assert cut.positions == {0: 1}


def test_blanks_around_the_text_do_not_matter() -> None:
    cut = StreamCut(Stream("s", "t"), {0: 1})
    assert StreamCut.from_text(f" {cut.to_text()}\n") == cut


def test_a_cut_over_thousands_of_segments() -> None:
    offsets = random.Random(1)
    cut = StreamCut(Stream("s", "t"), {make_segment_id(each, 1): offsets.randrange(1 << 40) for each in range(10_000)})
    assert len(cut.to_text()) > 50_000
    assert StreamCut.from_text(cut.to_text()) == cut


def test_the_plain_text_is_a_cut_too() -> None:
    for text, positions in java_vectors():
        if positions:
            plain = gzip.decompress(base64.b64decode(text)).decode()
            assert StreamCut.from_text(f" {plain} ") == StreamCut.from_text(text)


MEMBER = gzip.compress(b"0:s/t:0:0:0", mtime=0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "gzip|cut short"),
        ("not base64!", "not base64"),
        ("aGVsbG8=", "not compressed with gzip"),
        (text_of("0:s/t:0:0:0")[:24], "cut short|not compressed|not base64"),
        (base64.b64encode(gzip.compress(b"\xff\xfe", mtime=0)).decode(), "does not hold text"),
        (UNBOUNDED, "leave the bound out"),
        (text_of("0:s/t:0:0"), "4 parts instead of 5"),
        ("0:s/t:0:0", "4 parts instead of 5.*the plain text 0:scope/stream"),
        (text_of("1:s/t:0:0:0"), "version '1'"),
        (text_of("0:st:0:0:0"), "instead of scope/stream"),
        (text_of("0:s/t/u:0:0:0"), "instead of scope/stream"),
        (text_of("0:s/t:0,1:0:0"), "2 segment numbers, 1 epochs and 1 offsets"),
        (text_of("0:s/t:x:0:0"), "'x' where whole numbers"),
        (text_of("0:s/t:-1:0:0"), "out of range"),
        (text_of("0:s/t:0:2147483648:0"), "out of range"),
        (text_of("0:s/t:0:0:-1"), "offset out of range"),
        (text_of("0:s/t:0,0:0,0:1,2"), "names a segment twice"),
        (text_of("0" * (65 << 20)), "too large"),
        *((text_of(f"0:s/t:0:0:{number}"), "where whole numbers") for number in ("+1", " 1", "1_0", "٣", "1" * 20)),
        (base64.b64encode(MEMBER + b"x" * 45_000).decode(), "45,000 bytes too many at its end"),
        (base64.b64encode(MEMBER + MEMBER).decode(), "bytes too many at its end"),
    ],
)
def test_nonsense_is_named(text: str, reason: str) -> None:
    with pytest.raises(InvalidOptionError, match=reason):
        StreamCut.from_text(text)


@given(st.text())
def test_any_text_is_a_cut_or_an_invalid_option(text: str) -> None:
    with pytest.raises(InvalidOptionError):
        StreamCut.from_text(text)
