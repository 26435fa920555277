"""Names: quoting, and which ones Pravega's clients can open."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_pravega.errors import InvalidNameError
from pyspark_pravega.sql.identifiers import (
    check_new_scope,
    check_new_stream,
    hyphenate,
    hyphenate_table,
    is_internal,
    quote,
    quote_all,
    replace_hyphens,
)


def test_backticks_only_where_needed() -> None:
    assert quote_all(["pravega", "iot", "sensor-agg"]) == "pravega.iot.`sensor-agg`"
    assert [quote(name) for name in ("a1", "_x", "1a", "a.b", "a`b", "", "é")] == [
        "a1", "_x", "`1a`", "`a.b`", "`a``b`", "``", "`é`",
    ]  # fmt: skip


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_quoted_parts_can_be_told_apart(parts: list[str]) -> None:
    text, found, position = quote_all(parts) + ".", [], 0
    while position < len(text):
        if text[position] == "`":
            end = position + 1
            while text[end] != "`" or text[end + 1] == "`":
                end += 2 if text[end] == "`" else 1
            found.append(text[position + 1 : end].replace("``", "`"))
            end += 1
        else:
            end = text.index(".", position)
            found.append(text[position:end])
        position = end + 1
    assert found == parts


@given(st.text("ab-_.", max_size=6))
def test_every_name_is_spelled_so_that_it_is_found_again(name: str) -> None:
    """But for names with `_` and without it in front, which no server makes."""
    if "_" not in name[1:] or is_internal(name):
        assert hyphenate(replace_hyphens(name)) == name


def test_underscores_of_sql() -> None:
    assert [replace_hyphens(name) for name in ("sensor-agg", "a-b.c", "-a", "_a")] == [
        "sensor_agg",
        "a_b.c",
        "-a",
        "_a",
    ]
    names = {"sensor_agg": "sensor-agg", "a_b-c": "a-b-c", "_a_b": "_a_b", "a": "a", "__spark_a": "__spark_a"}
    assert [hyphenate(name) for name in names] == [*names.values()]
    names["__spark_autocdc_aux_state_a"] = "spark-autocdc-aux-state-a"
    assert [hyphenate_table(name) for name in names] == [*names.values()]


@pytest.mark.parametrize("name", ["sensor", "sensor-agg", "Sensor.v1", "0", "-", "a" * 250])
def test_names_that_every_client_opens(name: str) -> None:
    check_new_stream(name)
    check_new_scope(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sensor_agg", "has characters.*'_'.*`sensor-agg`"),
        ("a b/c", "Use for example `a-b-c`"),
        ("_hidden", "begins with '_'.*`hidden`"),
        ("grün", "'ü'.*`gr-n`"),
        ("٣", "has characters.*Choose another name"),
        ("", "may not be empty"),
        ("sensor\n", "has characters"),
        (".", "means a folder"),
        ("..", "means a folder"),
        ("a" * 100_000, "`a{40}\\.\\.\\.` has 100,000 characters"),
        ("_" * 251, "251 characters"),
        ("a" * 251, "251 characters.*at most 250"),
    ],
)
def test_names_that_would_lock_other_clients_out(name: str, message: str) -> None:
    with pytest.raises(InvalidNameError, match=message):
        check_new_stream(name)


def test_scopes_may_be_a_little_longer() -> None:
    check_new_scope("a" * 255)
    with pytest.raises(InvalidNameError, match="at most 255"):
        check_new_scope("a" * 256)


def test_internal_names() -> None:
    assert is_internal("_MARKsensor") and is_internal("_system") and not is_internal("sensor_")
