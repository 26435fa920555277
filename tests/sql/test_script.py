"""Scripts: where statements begin and end, and what is said of text that cannot be split."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.errors import InvalidScriptError
from pyspark_pravega.sql.script import Statement, split_script

SCRIPT = """-- A job; with a comment
SET pravega.stream.trigger = '10 seconds'; /* one; more */

INSERT INTO pravega.iot.`a;b` WITH ('codec'='gz;ip')
  SELECT "x;y", 'it''s;', r'\\;' -- the end; not yet
  FROM STREAM pravega.iot.sensor WATERMARK ts DELAY OF INTERVAL 10 SECONDS;; SELECT 1
;
"""


def test_statements_end_at_semicolons_that_are_no_part_of_anything() -> None:
    found = split_script(SCRIPT)
    assert [(one.line, one.column, one.text.split()[0]) for one in found] == [
        (2, 1, "SET"),
        (4, 1, "INSERT"),
        (6, 78, "SELECT"),
    ]
    assert found[1].text.startswith("INSERT INTO pravega.iot.`a;b`") and found[1].text.endswith("10 SECONDS")
    assert found[2].text == "SELECT 1"


def test_a_statement_in_place_has_the_lines_and_columns_of_the_script() -> None:
    for one in split_script(SCRIPT):
        lines = one.in_place().split("\n")
        assert SCRIPT.split("\n")[one.line - 1].index(one.text.split("\n")[0]) == one.column - 1
        assert lines[one.line - 1][one.column - 1 :] == one.text.split("\n")[0]
        assert not "".join(lines[: one.line - 1]).strip()


def test_no_string_is_in_a_summary() -> None:
    (one,) = split_script("INSERT INTO t\n WITH ('security.password' = 'swordfish') SELECT 'swordfish'")
    assert one.summary == "INSERT INTO t WITH (..."
    (one,) = split_script("SELECT   1")
    assert one.summary == "SELECT 1"


@pytest.mark.parametrize(
    ("text", "session_only", "setting"),
    [
        ("SET x = y", True, True),
        ("reset x", True, True),
        ("USE pravega.iot", True, False),
        ("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 1", True, False),
        ("CREATE TEMP VIEW v AS SELECT 1", True, False),
        ("DROP VIEW IF EXISTS v", True, False),
        ("CREATE TABLE view_of AS SELECT 1", False, False),
        ("INSERT INTO `view` SELECT 1", False, False),
        ("SELECT * FROM t", False, False),
    ],
)
def test_kinds_of_statements(text: str, session_only: bool, setting: bool) -> None:
    (one,) = split_script(text)
    assert (one.changes_session_only, one.is_setting) == (session_only, setting)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("SELECT 1;\nSELECT 'abc", "Missing ' from 2:"),
        ("SELECT 1;\nSELECT `abc", "Missing ` from 2:"),
        ("SELECT 1; /* never closed", "comment that is not closed"),
        ("SELECT 1;\n\nBEGIN SELECT 1; END", "Line 3: a script must not have BEGIN"),
        ("SELECT 1;\nhere: BEGIN SELECT 1; END", "Line 2: a script must not have BEGIN"),
    ],
)
def test_what_cannot_be_split_is_refused(script: str, message: str) -> None:
    with pytest.raises(InvalidScriptError, match=message):
        split_script(script)


@given(st.lists(st.sampled_from(["SELECT 1", "SET a = 'x;y'", "SELECT `;`", "SELECT 2 -- ;\n", "/* ; */ USE b"])))
def test_joined_statements_are_split_again(parts: list[str]) -> None:
    def texts(found: list[Statement]) -> list[str]:
        return [one.text for one in found]

    alone = [text for part in parts for text in texts(split_script(part))]
    assert texts(split_script(";\n".join(parts))) == alone and len(alone) == len(parts)
