"""States of reader groups from records in the form of Java's classes, of kinds that its readers seldom write."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from pyspark_pravega.client.consumers.group_progress import fold_records
from pyspark_pravega.client.stream import Stream, make_segment_name
from pyspark_pravega.client.wire.versioned import VersionedWriter, encode_versioned

STREAM = Stream("iot", "sensor")
OTHER = Stream("iot", "other")
NEW = 1 << 32 | 2
"""Segment 2, which the first scaling made."""


def name(segment: int, stream: Stream = STREAM) -> str:
    return make_segment_name(stream, segment)


class Fields(VersionedWriter):
    """The fields of one change."""

    def offsets(self, offsets: Mapping[str, int]) -> None:
        self.mapping(offsets, self.text, lambda at: self.pack("q", at))

    def texts(self, texts: Sequence[str]) -> None:
        self.compact_int(len(texts))
        for text in texts:
            self.text(text)


def change(kind: int, *values: str | int | Mapping[str, int]) -> bytes:
    fields = Fields()
    for value in values:
        if isinstance(value, str):
            fields.text(value)
        elif isinstance(value, int):
            fields.pack("q", value)
        else:
            fields.offsets(value)
    return encode_versioned([fields.getvalue()], type=kind)


def initial(offsets: Mapping[str, int]) -> bytes:
    fields = Fields()
    fields.block(b"the configuration")
    fields.offsets(offsets)
    return struct.pack(">i", 1) + encode_versioned([fields.getvalue()], type=0)


def changes(*several: bytes) -> bytes:
    return struct.pack(">i", 2) + b"".join(struct.pack(">i", len(one)) + one for one in several)


def completed(reader: str, segment: int, successors: Mapping[str, Sequence[int]]) -> bytes:
    fields = Fields()
    fields.text(reader)
    fields.text(name(segment))
    fields.mapping(successors, fields.text, lambda before: fields.pack(f"B{len(before)}q", len(before), *before))
    return encode_versioned([fields.getvalue()], type=7)


def positions(*records: bytes, stream: Stream = STREAM) -> dict[int, int]:
    progress = fold_records(records)
    assert progress is not None
    return progress.positions(stream)


def acquire(reader: str, *segments: int) -> list[bytes]:
    return [change(2, reader), *(change(5, reader, name(segment)) for segment in segments)]


BEGIN = initial({name(0): 10, name(1): 20})


def test_a_group_that_nobody_has_used() -> None:
    assert fold_records([]) is None and fold_records([changes(change(2, "a"))]) is None
    progress = fold_records([BEGIN])
    assert progress is not None and not progress.used and progress.positions(STREAM) == {0: 10, 1: 20}
    assert positions(initial({name(0): 1, name(0, OTHER): 2}), stream=OTHER) == {0: 2}


def test_readers_take_release_and_end() -> None:
    taken = changes(*acquire("a", 0), *acquire("b", 1))
    assert positions(BEGIN, taken) == {0: 10, 1: 20}
    released = changes(change(4, "a", name(0), 15), change(5, "b", name(0)))
    assert positions(BEGIN, taken, released) == {0: 15, 1: 20}
    ended = changes(change(3, "b", {name(0): -1, name(1): 30}))
    assert positions(BEGIN, taken, released, ended) == {0: -1, 1: 30}, "the first has been read to its end"
    died = changes(change(3, "b", {}))
    assert positions(BEGIN, taken, released, died) == {0: 15, 1: 20}
    assert positions(BEGIN, taken, released, initial({name(0): 3})) == {0: 3}, "the group was reset"


def test_segments_that_follow_two_others() -> None:
    merged = {name(NEW): [0, 1]}
    first = changes(*acquire("a", 0, 1), completed("a", 0, merged))
    assert positions(BEGIN, first) == {1: 20}, "no cut yet"
    assert positions(BEGIN, first, changes(completed("a", 1, merged))) == {NEW: 0}


def test_a_checkpoint_counts_once_all_readers_have_come_to_it() -> None:
    begun = changes(*acquire("a", 0), change(2, "b"), change(9, "first"), change(8, "first", "a", {name(0): 11}))
    assert positions(BEGIN, begun) == {0: 11, 1: 20}, "where others would go on"
    complete = changes(change(8, "first", "b", {}), change(5, "b", name(1)), change(4, "b", name(1), 40))
    assert positions(BEGIN, begun, complete) == {0: 11, 1: 20}, "what follows it does not count"
    later = changes(change(9, "second"), change(9, "third"), change(8, "third", "a", {name(0): 12}))
    assert positions(BEGIN, begun, complete, later) == {0: 11, 1: 20}
    third = changes(change(3, "b", {}))  # a reader that has ended completes what it had yet to do
    assert positions(BEGIN, begun, complete, later, third) == {0: 12, 1: 40}
    assert positions(BEGIN, begun, complete, later, third, changes(change(8, "second", "a", {name(0): 11}))) == {
        0: 12,
        1: 40,
    }, "an earlier one that was passed over"
    given_up = changes(encode_versioned([b""], type=13), change(3, "b", {}))
    assert positions(BEGIN, begun, complete, later, given_up) == {0: 11, 1: 20}


def test_checkpoints_that_measure_a_cut_do_not_count() -> None:
    silent = changes(
        *acquire("a", 0, 1), change(9, "_SILENT_1"), change(8, "_SILENT_1", "a", {name(0): 12, name(1): 22})
    )
    assert positions(BEGIN, silent) == {0: 10, 1: 20}


def test_a_checkpoint_without_readers_is_complete() -> None:
    assert positions(BEGIN, changes(change(9, "alone"), *acquire("a", 0), change(4, "a", name(0), 50))) == {
        0: 10,
        1: 20,
    }


def whole_state(names: Sequence[str], checkpoints: Mapping[str, Mapping[str, int]]) -> bytes:
    """A state of the readers a and b, which have yet to come to the checkpoint `open`."""
    inner = Fields()
    inner.texts(names)
    inner.mapping({"open": ["a", "b"]}, inner.text, inner.texts)
    inner.mapping(checkpoints, inner.text, inner.offsets)
    inner.offsets({})
    fields = Fields()
    fields.block(b"the configuration")
    fields.block(encode_versioned([inner.getvalue(), b"\x01"]))
    fields.offsets({"a": 5, "b": 6})
    fields.mapping({name(NEW): 7}, fields.text, lambda before: fields.pack("Bq", 1, before))
    fields.mapping({"a": {name(0): 12}, "b": {}}, fields.text, fields.offsets)
    fields.offsets({name(1): 22})
    return struct.pack(">i", 1) + encode_versioned([fields.getvalue()], type=1)


def test_a_whole_state_with_readers_and_checkpoints() -> None:
    opened: dict[str, Mapping[str, int]] = {"open": {name(1): 21}, "_SILENT_2": {}}
    whole = whole_state(["open", "_SILENT_2"], opened)
    progress = fold_records([BEGIN, whole])
    assert progress is not None and progress.used and progress.waiting == {name(NEW): {7}}
    assert progress.positions(STREAM) == {0: 12, 1: 22}
    ends = changes(change(8, "open", "a", {name(0): 13}), change(8, "open", "b", {}))
    assert positions(BEGIN, whole, ends) == {0: 13, 1: 21}
    complete = whole_state(["alone", "open"], {"alone": {name(0): 9, name(1): 8}, **opened})
    assert positions(complete) == {0: 9, 1: 8}, "a checkpoint of a time without readers"
