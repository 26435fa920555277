"""The modes for bad events on real servers: the corpus, each event between good ones."""

from __future__ import annotations

import itertools
import logging
import struct
import uuid
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.registry.registry_types import Encoding, GroupProperties, SchemaInfo
from pyspark_pravega.client.registry.schema_registry import SchemaRegistry
from pyspark_pravega.client.segments.append import SegmentAppender
from pyspark_pravega.client.segments.event_frames import frame
from pyspark_pravega.client.stream import ScalingPolicy, Stream, StreamConfiguration
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.datasource.kinds.opening import open_table
from pyspark_pravega.datasource.scan.dead_letter_stream import COLUMNS, DeadLetters, Letter, create_target
from pyspark_pravega.datasource.scan.scan_request import ScanRequest
from pyspark_pravega.datasource.tables.bad_events import BadEventRule, read_bad_event_rule
from pyspark_pravega.datasource.tables.loading import load_table
from pyspark_pravega.datasource.tables.stored_properties import make_tags, read_own_properties
from pyspark_pravega.datasource.tables.stream_table import StreamTable
from pyspark_pravega.errors import (
    InvalidOptionError,
    MalformedEventError,
    PermissionDeniedError,
    ServerUnavailableError,
)
from pyspark_pravega.sql.options import resolve
from tests.bad_payloads import AVRO_SCHEMA, BAD_AVRO, BAD_JSON, GOOD_JSON, HEADER
from tests.datasource.scans import add_counts, batches, insert, keyed_table, rows, scan
from tests.datasource.transactions import raw_table


def append(pravega: Pravega, stream: Stream, payloads: list[bytes]) -> None:
    """Write raw events; a stream without routing key has them in order in each segment."""
    insert(pravega, raw_table(stream), pa.record_batch([pa.array(payloads, pa.binary())], names=["event"]))


def json_table(pravega: Pravega, stream: Stream) -> StreamTable:
    append(pravega, stream, mix_events([payload for payload, _ in BAD_JSON.values()], good_json))
    return keyed_table(stream)


def avro_table(pravega: Pravega, stream: Stream, bad: list[bytes] | None = None) -> StreamTable:
    registry = pravega.registry(stream.scope)
    registry.create_group(stream.name, GroupProperties("Avro"))
    version = registry.add_schema(stream.name, SchemaInfo.of_text("Event", "Avro", AVRO_SCHEMA))
    assert registry.encoding_id(stream.name, version) == 0
    append(pravega, stream, mix_events(bad or [payload for payload, _ in BAD_AVRO.values()], good_avro))
    return load_table(pravega, stream).table


def good_json(number: int) -> bytes:
    return b'{"k":%d,"v":%d}' % (number, 10 * number)


def good_avro(number: int) -> bytes:
    return HEADER + bytes([2 * number]) + b"\x02" + bytes([2 * number])


def mix_events(bad: list[bytes], good: Callable[[int], bytes]) -> list[bytes]:
    """A good event, then each bad one with a good one behind it."""
    return [good(0), *itertools.chain.from_iterable((payload, good(n + 1)) for n, payload in enumerate(bad))]


CORPORA = [
    pytest.param(json_table, BAD_JSON, id="json"),
    pytest.param(avro_table, BAD_AVRO, id="avro", marks=pytest.mark.long),
]
each_corpus = pytest.mark.parametrize(("make", "corpus"), CORPORA)


@each_corpus
class TestCorpus:
    def test_failfast_names_the_first(
        self, pravega: Pravega, new_stream: Callable[..., Stream], make: Any, corpus: dict[str, tuple[bytes, str]]
    ) -> None:
        table = make(pravega, new_stream())
        _, reason = next(iter(corpus.values()))
        first = next(iter(rows(scan(pravega, raw_table(table.stream), ["_offset", "event"]))))
        with pytest.raises(MalformedEventError, match="offset ") as caught:
            rows(scan(pravega, table))
        assert f"offset {len(first['event']) + 8} of segment {table.stream}/0.#epoch.0 " in str(caught.value)  # type: ignore[arg-type]
        assert reason in str(caught.value)

    def test_permissive(
        self, pravega: Pravega, new_stream: Callable[..., Stream], make: Any, corpus: dict[str, tuple[bytes, str]]
    ) -> None:
        table = make(pravega, new_stream())
        columns = ["k", "v", "_error", "_raw", "_offset", "_encoding_id"]
        found = rows(scan(pravega, table, columns, mode="permissive"))
        assert len(found) == 2 * len(corpus) + 1
        assert [row["k"] for row in found[::2]] == list(range(len(corpus) + 1))
        assert {row["_error"] for row in found[::2]} == {None}
        assert all((row["_encoding_id"] == 0) is table.framed for row in found[::2])
        for row, (payload, reason) in zip(found[1::2], corpus.values(), strict=True):
            assert (row["k"], row["v"], row["_raw"]) == (None, None, payload)
            assert reason in str(row["_error"])
        offsets = [row["_offset"] for row in found]
        assert offsets == sorted(set(offsets)), "every row is at its place"  # type: ignore[type-var]
        # The reason is the same whatever else is asked for, and no row is lost.
        for columns in (["_error"], ["v", "_error"]):
            again = rows(scan(pravega, table, columns, mode="permissive"))
            assert [row["_error"] for row in again] == [row["_error"] for row in found]
        assert len(rows(scan(pravega, table, [], mode="permissive"))) == len(found)

    def test_dropmalformed(
        self, pravega: Pravega, new_stream: Callable[..., Stream], make: Any, corpus: dict[str, tuple[bytes, str]]
    ) -> None:
        table = make(pravega, new_stream())
        good = len(corpus) + 1
        found = rows(scan(pravega, table, ["k", "v", "_error"], mode="dropmalformed"))
        assert found == [{"k": n, "v": 10 * n if table.format == "json" else n, "_error": None} for n in range(good)]
        for columns in ([], ["_segment"], ["v"], ["k"]):
            assert len(rows(scan(pravega, table, columns, mode="dropmalformed"))) == good, columns
        for limit in (1, 3, good, good + 5):
            assert len(rows(scan(pravega, table, ["k"], mode="dropmalformed", limit=limit))) == min(limit, good)

    def test_dead_letter(
        self, pravega: Pravega, new_stream: Callable[..., Stream], make: Any, corpus: dict[str, tuple[bytes, str]]
    ) -> None:
        table = make(pravega, new_stream())
        planned = scan(pravega, table, ["k"], dead_letter="letters")
        assert not pravega.controller.stream_exists(Stream(table.stream.scope, "letters")), "made when needed"
        assert [row["k"] for row in rows(planned)] == list(range(len(corpus) + 1))
        letters = load_table(pravega, Stream(table.stream.scope, "letters")).table
        found = rows(scan(pravega, letters))
        assert [(letter["event"]) for letter in found] == [payload for payload, _ in corpus.values()]
        for letter, (_, reason) in zip(found, corpus.values(), strict=True):
            assert reason in str(letter["reason"])
            assert letter["stream"] == str(table.stream)
            assert letter["segment"] == f"{table.stream}/0.#epoch.0"
        # Where they say they are, they are.
        raw = {row["_offset"]: row["event"] for row in rows(scan(pravega, raw_table(table.stream)))}
        assert all(raw[letter["offset"]] == letter["event"] for letter in found)
        # Again: at least once.
        rows(scan(pravega, table, ["k"], dead_letter=str(letters.stream)))
        assert len(rows(scan(pravega, letters))) == 2 * len(corpus)


def test_unusual_but_good(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    stream = new_stream()
    append(pravega, stream, list(GOOD_JSON.values()))
    found = rows(scan(pravega, keyed_table(stream), ["k", "v"]))
    assert found == [{"k": 7, "v": 70}] * len(GOOD_JSON)


class TestNumbers:
    """Bad events among many, over several batches and segments."""

    @pytest.fixture(scope="class")
    @classmethod
    def table(cls, pravega: Pravega, new_read_stream: Callable[[int, str], Stream]) -> StreamTable:
        """It is only read; dead letters go to streams beside it."""
        return cls.fill(pravega, new_read_stream(2, "numbers"))

    @staticmethod
    def fill(pravega: Pravega, stream: Stream) -> StreamTable:
        payloads = [b"?" if n % 7 == 3 else good_json(n) for n in range(40_000)]
        append(pravega, stream, payloads)
        return keyed_table(stream)

    GOOD: ClassVar = [n for n in range(40_000) if n % 7 != 3]

    def test_dropped_ones_are_counted(self, pravega: Pravega, table: StreamTable) -> None:
        planned = scan(pravega, table, ["k"], mode="dropmalformed")
        assert sorted(row["k"] for row in rows(planned)) == self.GOOD  # type: ignore[type-var]
        counted = scan(pravega, table, ["k"], counted=True, mode="dropmalformed")
        assert counted.source.output.fieldNames() == ["k", "_counts"]
        found = rows(counted)
        assert sorted(row["k"] for row in found if row["_counts"] is None) == self.GOOD  # type: ignore[type-var]
        told = add_counts([row["_counts"] for row in found])
        assert told.bad_events == 40_000 - len(self.GOOD)
        assert told.bytes == counted.bytes
        assert told.slices == counted.segments and told.retries == told.left_out == told.sieved == 0
        assert told.waited >= 0

    def test_a_column_of_the_name_that_counts_have(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        table = self.fill(pravega, new_stream(2))
        append(pravega, table.stream, [b'{"_counts":7}', b"?"])
        column = StructType([StructField("_counts", LongType())])
        named = StreamTable(table.stream, "json", "none", column)
        found = batches(scan(pravega, named, ["_counts"], counted=True, mode="dropmalformed"))
        every = [batch for partition in found for batch in partition]
        assert [value for batch in every for value in batch.column(0).drop_null().to_pylist()] == [7]
        assert add_counts([value for batch in every for value in batch.column(1).to_pylist()]).bad_events > 5000

    def test_what_is_read_is_counted_where_nothing_can_be_bad(self, pravega: Pravega, table: StreamTable) -> None:
        counted = scan(pravega, table, [], counted=True)
        told = add_counts([row["_counts"] for row in rows(counted)])
        assert told.bad_events == 0 and told.bytes == counted.bytes

    @pytest.mark.parametrize("limit", [1, 255, 257, 5000, 100_000])
    def test_a_limit_counts_rows(self, pravega: Pravega, table: StreamTable, limit: int) -> None:
        planned = scan(pravega, table, ["k"], limit=limit, counted=True, mode="dropmalformed")
        for partition in batches(planned):
            found = [row["k"] for batch in partition for row in batch.to_pylist() if row["_counts"] is None]
            assert len(found) <= limit
            if limit < 10_000:
                assert len(found) == limit
            assert found == sorted(found)
        permissive = scan(pravega, table, ["k"], limit=limit, mode="permissive")
        assert all(sum(batch.num_rows for batch in read) == min(limit, 20_000) for read in batches(permissive))

    def test_what_lies_behind_a_limit_is_no_dead_letter(self, pravega: Pravega, table: StreamTable) -> None:
        rows(scan(pravega, table, ["k"], limit=3, dead_letter="few"))
        target = Stream(table.stream.scope, "few")
        letters = rows(scan(pravega, load_table(pravega, target).table)) if exists(pravega, target) else []
        assert len(letters) <= 2

    def test_dead_letters_go_on_where_their_stream_was_scaled(self, pravega: Pravega, table: StreamTable) -> None:
        target = Stream(table.stream.scope, "letters")
        create_target(pravega, target)
        planned = scan(pravega, table, ["k"], dead_letter="letters", read_window="64k")
        scaled = False
        read = 0
        for partition in planned.reader.partitions():
            for batch in planned.reader.read(partition):
                read += batch.num_rows
                if not scaled:
                    scaled = True
                    pravega.controller.scale_stream(target, [0], [(0.0, 0.5), (0.5, 1.0)])
        assert read == len(self.GOOD)
        letters = rows(scan(pravega, load_table(pravega, target).table, ["segment", "offset"]))
        assert len({(letter["segment"], letter["offset"]) for letter in letters}) == 40_000 - len(self.GOOD)


def test_long_dead_letters_go_on_where_their_stream_is_scaled_again_and_again(pravega: Pravega, scope: str) -> None:
    source, target = Stream(scope, "events"), Stream(scope, "letters")
    create_target(pravega, target)
    scalings = iter([[(0.0, 0.5), (0.5, 1.0)], [(0.0, 1.0)]])

    class Overtaken(DeadLetters):
        """The segments that it finds are sealed before it writes to them, twice."""

        def _open(self) -> SegmentAppender:
            opened = super()._open()
            if ranges := next(scalings, None):
                ids = [segment.segment_id for segment in pravega.controller.current_segments(target)]
                pravega.controller.scale_stream(target, ids, ranges)
            return opened

    long = bytes(3 << 20)
    with closing(Overtaken(pravega, BadEventRule(dead_letter=target), source, 0)) as letters:
        letters.write([Letter("segment", offset, "bad", None, long) for offset in range(6)])
    found = rows(scan(pravega, load_table(pravega, target).table, ["offset"]))
    assert sorted(row["offset"] for row in found) == list(range(6))  # type: ignore[type-var]


def exists(pravega: Pravega, stream: Stream) -> bool:
    return pravega.controller.stream_exists(stream)


class TestBrokenFrames:
    """Bytes that are no event, as a program leaves them that does not use Pravega's clients."""

    BROKEN = struct.pack(">ii", 0, 1 << 20) + b"too short", b"no event at all.", struct.pack(">ii", 0, -5)

    @pytest.fixture(
        params=[
            pytest.param(BROKEN[0], id="long"),
            pytest.param(BROKEN[1], id="type", marks=pytest.mark.long),
            pytest.param(BROKEN[2], id="negative", marks=pytest.mark.long),
        ]
    )
    def table(self, request: pytest.FixtureRequest, pravega: Pravega, new_stream: Callable[..., Stream]) -> StreamTable:
        """Four good events in the one segment and one in the other, before the broken bytes and two good events."""
        stream = new_stream(2)
        append(pravega, stream, [good_json(number) for number in (1, 2, 3, 4)])
        segments = [segment.segment_id for segment in pravega.controller.current_segments(stream)]
        with SegmentAppender(pravega.segments, stream, segments[0], uuid.uuid4()) as appender:
            appender.append(request.param, 1)
            appender.append(frame(pa.array([good_json(5), good_json(6)])), 2)
            appender.flush()
        return keyed_table(stream)

    def place(self, pravega: Pravega, table: StreamTable) -> tuple[int, int]:
        """Where the broken bytes begin, and where their segment ends."""
        segment = pravega.controller.current_segments(table.stream)[0].segment_id
        end = pravega.segments.segment_infos(table.stream, [segment])[segment].write_offset
        return 2 * (8 + len(good_json(1))), end

    def test_failfast_names_place_and_way_out(self, pravega: Pravega, table: StreamTable) -> None:
        offset, end = self.place(pravega, table)
        segment = f"{table.stream}/0.#epoch.0"
        with pytest.raises(MalformedEventError, match=f"Segment {segment} cannot be read from offset {offset} on: .*"):
            rows(scan(pravega, table, ["k"]))
        ids = [one.segment_id for one in pravega.controller.current_segments(table.stream)]
        after = StreamCut(table.stream, {ids[0]: end, ids[1]: 0}).to_text()
        assert len(rows(scan(pravega, table, ["k"], start_stream_cut=after))) == 2, "what it advises works"

    def test_the_rest_of_the_segment_is_one_bad_event(self, pravega: Pravega, table: StreamTable) -> None:
        offset, end = self.place(pravega, table)
        columns = ["k", "_error", "_offset", "_raw"]
        found = rows(scan(pravega, table, columns, mode="permissive"))
        assert sorted(row["k"] for row in found if row["_error"] is None) == [1, 2, 3, 4]  # type: ignore[type-var]
        (bad,) = [row for row in found if row["_error"] is not None]
        assert (bad["k"], bad["_offset"], bad["_raw"]) == (None, offset, b"")
        assert f"the {end - offset} bytes up to offset {end} are left out" in str(bad["_error"])
        assert len(rows(scan(pravega, table, [], mode="permissive"))) == 5
        dropped = scan(pravega, table, ["k"], counted=True, mode="dropmalformed")
        assert sorted(str(row["k"]) for row in rows(dropped) if row["_counts"] is None) == ["1", "2", "3", "4"]
        assert add_counts([row["_counts"] for row in rows(dropped)]).bad_events == 1
        assert len(rows(scan(pravega, table, ["k"], limit=2, mode="dropmalformed"))) == 2, "of small segments together"

    def test_a_part_of_a_header_at_the_end(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        stream = new_stream()
        append(pravega, stream, [good_json(number) for number in (1, 2)])
        with SegmentAppender(pravega.segments, stream, 0, uuid.uuid4()) as appender:
            appender.append(bytes(3), 1)
            appender.flush()
        table, offset = keyed_table(stream), 2 * (8 + len(good_json(1)))
        with pytest.raises(MalformedEventError, match=f"cannot be read from offset {offset} on: .*inside the header"):
            rows(scan(pravega, table, ["k"]))
        found = rows(scan(pravega, table, ["k", "_offset"], mode="permissive"))
        assert [(row["k"], row["_offset"]) for row in found] == [(1, 0), (2, offset // 2), (None, offset)]
        assert len(rows(scan(pravega, table, ["k"], mode="dropmalformed"))) == 2

    def test_a_dead_letter_tells_of_it(self, pravega: Pravega, table: StreamTable) -> None:
        offset, _ = self.place(pravega, table)
        assert len(rows(scan(pravega, table, ["k"], dead_letter="letters"))) == 4
        (letter,) = rows(scan(pravega, load_table(pravega, Stream(table.stream.scope, "letters")).table))
        assert letter["offset"] == offset


def test_a_registry_that_goes_away_hides_no_bad_event(
    pravega: Pravega, new_stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked once what the event's id means, and not again for the words of the error."""
    table = avro_table(pravega, new_stream(), [b"\x01\0\0\0\x63 nobody knows"])
    answer, asked = SchemaRegistry.encoding, []

    def encoding(registry: SchemaRegistry, group: str, id: int) -> Encoding:
        asked.append(id)
        if asked.count(99) > 1:
            raise ServerUnavailableError("the registry is away")
        return answer(registry, group, id)

    monkeypatch.setattr(SchemaRegistry, "encoding", encoding)
    with pytest.raises(MalformedEventError, match="encoding id 99"):
        rows(scan(pravega, table))
    assert asked.count(99) == 1


def test_tasks_are_told_the_schemas_that_most_tables_have(
    pravega: Pravega, new_stream: Callable[..., Stream], caplog: pytest.LogCaptureFixture
) -> None:
    planned = scan(pravega, avro_table(pravega, new_stream(), [good_avro(7)]))
    caplog.set_level(logging.DEBUG)
    assert len(rows(planned)) == 3
    assert [record for record in caplog.records if record.name.startswith("pyspark_pravega.client.registry")] == []
    assert "reading" in caplog.text


class TestTargets:
    def test_other_streams_are_refused(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        table = keyed_table(new_stream())
        new_stream(name="other")
        for name, message in [("other", "is a stream for other events"), ("stream", "the stream that is read")]:
            with pytest.raises(InvalidOptionError, match=message):
                scan(pravega, table, dead_letter=name)
        for name in ("a/b/c", "/x", "x/"):
            with pytest.raises(InvalidOptionError, match="is not a stream"):
                scan(pravega, table, dead_letter=name)

    def test_one_made_before_is_taken(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        table = keyed_table(new_stream())
        target = Stream(table.stream.scope, "letters")
        create_target(pravega, target)
        create_target(pravega, target)
        assert load_table(pravega, target).table.schema == COLUMNS
        append(pravega, table.stream, [b"?"])
        assert rows(scan(pravega, table, dead_letter="letters")) == []

    def test_one_that_promises_a_routing_key_is_refused(
        self, pravega: Pravega, new_stream: Callable[..., Stream]
    ) -> None:
        table = keyed_table(new_stream())
        target = Stream(table.stream.scope, "letters")
        create_target(pravega, target)
        made = pravega.controller.stream_configuration(target)
        promise = {"routing-key": "stream", "routing-key.of-all-events": "true"}
        promised = replace(made, tags=make_tags({**read_own_properties(made.tags), **promise}))
        pravega.controller.update_stream(target, promised)
        with pytest.raises(InvalidOptionError, match="promises by .* key 'stream', and dead letters have none"):
            scan(pravega, table, dead_letter="letters")

    def test_an_event_too_large_to_be_in_another(self, pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
        table = keyed_table(new_stream())
        append(pravega, table.stream, [b"?" * (8 << 20), b"?" * (4 << 20)])
        assert rows(scan(pravega, table, dead_letter="letters")) == []
        letters = load_table(pravega, Stream(table.stream.scope, "letters")).table
        first, second = rows(scan(pravega, letters, ["event", "offset"]))
        assert (first["event"], first["offset"], len(second["event"])) == (None, 0, 4 << 20)  # type: ignore[arg-type]

    def test_rights_are_named(self, secure_client_config: Callable[..., ClientConfig], secure_scope: str) -> None:
        table = keyed_table(Stream(secure_scope, "stream"))
        with connect(secure_client_config()) as admin, connect(secure_client_config("reader")) as reader:
            admin.controller.create_stream(table.stream, StreamConfiguration(ScalingPolicy()))
            append(admin, table.stream, [b"?"])
            with pytest.raises(PermissionDeniedError, match="create stream"):
                rows(scan(reader, table, dead_letter="letters"))


def test_which_rule_counts() -> None:
    source = Stream("s", "t")

    def rule(**places: dict[str, str]) -> BadEventRule:
        return read_bad_event_rule(resolve(**places, env={}), source)  # type: ignore[arg-type]

    letters = Stream("s", "x")
    assert rule() == BadEventRule("failfast")
    assert rule(read={"mode": "PERMISSIVE"}, properties={"mode": "failfast"}) == BadEventRule("permissive")
    assert rule(read={"dead-letter": "x"}) == BadEventRule("dropmalformed", letters)
    assert rule(read={"dead-letter": "other/x"}) == BadEventRule("dropmalformed", Stream("other", "x"))
    assert rule(read={"dead-letter": "x", "mode": "dropmalformed"}) == BadEventRule("dropmalformed", letters)
    assert rule(read={"dead-letter": "x"}, properties={"mode": "permissive"}).dead_letter == letters
    assert rule(read={"mode": "failfast"}, properties={"dead-letter": "x"}) == BadEventRule("failfast")
    assert rule(properties={"dead-letter": "s/x"}) == BadEventRule("dropmalformed", letters, of_table=True)
    for other in ("other/x", "../x", "s.x/x", "'s'/x", "S/x", "_x/x"):
        for key in ("dead-letter", "Dead-Letter", "deadLetter", "DEADLETTER"):
            with pytest.raises(InvalidOptionError, match=r"in the table's scope, 's': ALTER TABLE .*read option"):
                rule(properties={key: other})
        assert rule(properties={"dead-letter": other}, read={"mode": "failfast"}) == BadEventRule("failfast")
        assert rule(properties={"dead-letter": other}, read={"dead-letter": "x"}).dead_letter == letters
    # The dead letters themselves can be read where the catalog has them as its default.
    assert rule(conf={"dead-letter": "x"}) == BadEventRule("dropmalformed", letters)
    assert rule(conf={"dead-letter": "t"}) == BadEventRule("failfast")
    with pytest.raises(InvalidOptionError, match="the stream that is read"):
        rule(properties={"dead-letter": "s/t"})
    for mode in ("failfast", "permissive"):
        with pytest.raises(InvalidOptionError, match="contradicts 'dead-letter'='x'"):
            rule(read={"dead-letter": "x", "mode": mode})


def test_a_struct_is_checked_whole(pravega: Pravega, new_stream: Callable[..., Stream]) -> None:
    """Members that are not asked for make an event bad too, and those that are come out alone."""

    def struct(*names: str) -> StructType:
        types = {"a": IntegerType(), "b": StringType()}
        return StructType([StructField(name, types[name]) for name in names])

    def table(*names: str) -> StructType:
        nested = StructType([StructField("s", struct(*names)), StructField("l", ArrayType(struct(*names)))])
        return nested

    stream = new_stream()
    append(
        pravega,
        stream,
        [
            b'{"s":{"a":1,"b":"x"},"l":[{"a":1,"b":"y"},null]}',
            b'{"s":{"a":1,"b":2},"l":[]}',
            b'{"s":{"a":1,"b":"x"},"l":[{"a":1,"b":2}]}',
            b'{"s":null,"l":null}',
        ],
    )
    whole = StreamTable(stream, "json", "none", table("a", "b"))
    for mode, expected in [
        ("dropmalformed", [({"a": 1}, [{"a": 1}, None]), (None, None)]),
        ("permissive", [({"a": 1}, [{"a": 1}, None]), (None, None), (None, None), (None, None)]),
    ]:
        planned = open_table(pravega, whole, resolve(read={"mode": mode}, env={})).plan_scan(ScanRequest(table("a")))
        assert [(row["s"], row["l"]) for row in rows(planned)] == expected
