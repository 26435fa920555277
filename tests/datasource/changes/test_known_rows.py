"""The list of the files with the rows that a stream of changes knows: what it needs, and what nobody needs any more."""

from __future__ import annotations

import json
from dataclasses import replace

from pyspark_pravega.datasource.changes.states import KnownRows, make_state_name

QUERY = "q"


def name(group: int, number: int, content: str = "x") -> str:
    return make_state_name(QUERY, group, number, content)


def test_what_is_written_is_read() -> None:
    known = KnownRows(QUERY, 7, {0: (name(0, 7), name(0, 3)), 5: (name(5, 2),)}, {9: 4})
    assert KnownRows.from_json(known.to_json(), QUERY) == known


def test_what_another_query_knew_does_not_count() -> None:
    text = KnownRows(QUERY, 7).to_json()
    assert KnownRows.from_json(text, "other") is None
    assert KnownRows.from_json(None, QUERY) is None
    later = json.dumps({**json.loads(text), "format": 2})
    assert KnownRows.from_json(later, QUERY) is None, "as of a later release"


def test_a_text_of_this_format_stays_readable() -> None:
    """As the first release wrote it into checkpoints."""
    text = '{"format": 1, "query": "q", "number": 2, "states": [[0, ["q-0-000000002-ab"]]], "merged": [[1, 2]]}'
    assert KnownRows.from_json(text, QUERY) == KnownRows(QUERY, 2, {0: ("q-0-000000002-ab",)}, {1: 2})


def test_a_state_begins_with_its_last_whole_file() -> None:
    newest, older, oldest = (name(0, number) for number in (3, 2, 1))
    known = KnownRows(QUERY, 3, {0: (newest, older, oldest)})
    whole = {oldest + ".whole", older + ".part", newest + ".part"}
    assert known.files(0, whole) == (newest + ".part", older + ".part", oldest + ".whole")
    assert known.files(0, whole | {older + ".whole"}) == (newest + ".part", older + ".whole")
    for missing in whole:
        assert known.files(0, whole - {missing}) is None
    assert known.files(0, {file.replace(".whole", ".part") for file in whole}) is None


def test_files_that_the_last_batches_need_stay() -> None:
    """Each batch here is whole at every fifth number; those from 20 - 6 on may be done again."""
    suffix = {number: ".whole" if number % 5 == 0 else ".part" for number in range(1, 21)}
    there = [name(0, number) + suffix[number] for number in suffix]
    there += [f"{number:09}-0a-0b.known" for number in suffix]
    known = KnownRows(QUERY, 20, {0: (name(0, 20),)})
    gone = known.obsolete([*there, "something else"], 6)
    assert sorted(gone) == sorted(
        [
            *(name(0, number) + suffix[number] for number in range(1, 10)),
            *(f"{number:09}-0a-0b.known" for number in range(1, 14)),
        ]
    )


def test_files_of_a_group_that_rests_stay() -> None:
    base, change = name(3, 1), name(3, 2)
    there = [base + ".whole", change + ".part"]
    known = KnownRows(QUERY, 1000, {3: (change, base)})
    assert known.obsolete(there, 10) == []
    # Nor does what a batch wrote that is no part of the query any more, as the checkpoint was set back by hand.
    assert known.obsolete([*there, name(3, 3, "other") + ".whole"], 10) == []


def test_files_of_a_group_that_became_part_of_another_go_in_the_end() -> None:
    there = [name(1, 4) + ".whole", name(1, 5) + ".part"]
    known = KnownRows(QUERY, 9, {0: (name(0, 6),)}, {1: 6})
    assert known.obsolete(there, 3) == there
    assert known.obsolete(there, 4) == []
    assert replace(known, number=8).obsolete(there, 3) == []
