"""Finds the newest rows of a table without reading the rest of it, and older ones window by window.

Events can be read only from a place where one begins. Such places are known where a version ends, and where the
watermarks of writers are. The earliest one from which little is left to read is the start.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_pravega.catalog import PravegaCatalog, Table
from pyspark_pravega.catalog.api.summary import has_one_stream
from pyspark_pravega.catalog.api.table import TableVersion
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.formats.core.format import find_format
from pyspark_pravega.sql.identifiers import quote_all
from pyspark_pravega.sql.options import FORMAT
from pyspark_pravega.values_as_text import format_bytes, format_cell

WANTED = 50
MOST_BYTES = 4 << 20
"""What one page reads at most, apart from single events that are larger."""
COMMITTED = "_committed"
"""A column of the page alone: when the commit was that holds a row."""
_MOST_ROWS = 10_000
"""What one page reads at most of a table whose rows have no order, to find a text in it."""
_VERSIONS = 256
_PLACE = ("_segment", "_offset")
_VERSION, _TIME = "_commit_version", "_commit_timestamp"
_OPTIONS = {"mode": "permissive", "fail-on-data-loss": "false"}
_TURNS = "the order is known within a segment only: segments take turns."
_ORDER = (
    "The newest first, by the commit that holds them, which for rows of other programs is the next one. "
    f"Of rows of one commit, or of none, {_TURNS}"
)


@dataclass(frozen=True)
class AskedRows:
    """Which rows a page asks for: those up to a version, without some newest ones, with a text in a column."""

    until: int | None = None
    skip: int = 0
    column: str = ""
    text: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> AskedRows:
        """Read the parameters of an address. Numbers that are none are left out."""
        until, skip = (
            int(text) if text.isdecimal() and len(text) < 16 else 0
            for text in map(query.get, ("until", "skip"), ("", ""))
        )
        return cls(until or None, min(skip, 1 << 20), query.get("column", ""), query.get("text", "")[:200])


@dataclass(frozen=True)
class NewestRows:
    """Rows to show, the newest first if their order is known, and a sentence that says which rows these are.

    `older` says where to go on; None if nothing older can be found.
    """

    rows: pa.Table
    says: str
    older: AskedRows | None = None


def find_newest_rows(catalog: PravegaCatalog, table: Table, names: tuple[str, str], selection: AskedRows) -> NewestRows:
    """Read the newest rows of a table, which has this scope and name. Raises the errors of reading it."""
    if not has_one_stream(table):
        limit = _MOST_ROWS if selection.text else selection.skip + WANTED
        rows = _select(table.scan(limit=limit).to_arrow(), selection)
        older = replace(selection, until=None, skip=selection.skip + WANTED)
        return NewestRows(
            rows[selection.skip :][:WANTED],
            "Rows of such a table have no common order. These are the first ones that were found.",
            older if rows.num_rows >= selection.skip + WANTED else None,
        )
    what = ""
    if getattr(find_format(table.properties[FORMAT.key]), "changes", False):
        table = catalog.load_table(quote_all((names[0], f"{names[1]}$changelog")))
        what = "The events of this table are changes of rows. These are the changes. "
    return _read_window(catalog, table, names, what, selection)


def _read_window(
    catalog: PravegaCatalog, table: Table, names: tuple[str, str], what: str, selection: AskedRows
) -> NewestRows:
    """Read as much as a page may before the place that was asked for."""
    versions = _list_versions(table)
    end = next((version for version in versions if version.version == selection.until), None)
    before = [version for version in versions if end is None or version.version < end.version]
    places = [version.position for version in before] or ([] if versions else _list_watermarks(catalog, names))
    after = table.size(end.position).bytes if end else 0

    @cache
    def measure(start: str | None) -> int:
        return max(0, table.size(start).bytes - after)

    start, first, limit = None, 0, None
    if measure(None) > MOST_BYTES:
        first = bisect_left(places, True, key=lambda cut: measure(cut) <= MOST_BYTES)
        if first == len(places) or measure(places[first]) == 0:
            first, limit = first - 1, WANTED
        start = places[first] if first >= 0 else None
    elif before and before[0].version > 1:
        start = before[0].position  # to find the commits of earlier rows, the whole log would be read
    commit = (_TIME, _VERSION) if versions and (start or versions[0].version == 1) else ()
    columns = [*(name for name in (*commit, *_PLACE) if name in table.hidden_columns), *table.schema.names]
    rows = table.scan(columns, limit=limit, start=start, end=end.position if end else None, options=_OPTIONS).to_arrow()
    rows = _select(rows, selection)
    held: Sequence[int | None] = [None] * rows.num_rows
    is_ordered = _VERSION in columns and _VERSION not in table.schema.names
    if is_ordered:
        held, rows = rows[_VERSION].to_pylist(), rows.drop_columns(_VERSION)
    if _TIME in columns and _TIME not in table.schema.names:
        rows = rows.rename_columns([COMMITTED, *rows.schema.names[1:]])
    older = None if start is None or not before else replace(selection, until=before[first].version, skip=0)
    if limit is not None:
        return NewestRows(
            rows,
            f"{what}The newest rows are the last of {format_bytes(measure(start))} of events between two known "
            "positions, too much to read for a page. These are the first ones after the earlier position.",
            older,
        )
    taken = _sort(rows, held, selection.skip + WANTED)[selection.skip :]
    if rows.num_rows > selection.skip + WANTED:
        older = replace(selection, skip=selection.skip + WANTED)
    return NewestRows(
        rows.take(pa.array(taken, pa.int64())), f"{what}{_ORDER if is_ordered else _TURNS.capitalize()}", older
    )


def _list_versions(table: Table) -> Sequence[TableVersion]:
    """Return the newest versions of a table, the earliest first."""
    try:
        return table.history(newest=_VERSIONS)
    except PravegaError:
        return []  # the user may not read the commit log


def _list_watermarks(catalog: PravegaCatalog, names: tuple[str, str]) -> list[str]:
    cuts = catalog.inspect(quote_all(names), "stream_cuts").to_pylist()
    return [cut["stream_cut"] for cut in cuts if cut["kind"] == "watermark"]


def _select(rows: pa.Table, selection: AskedRows) -> pa.Table:
    """Return the rows that have the text in the column, as the page shows it."""
    if not selection.text or selection.column not in rows.schema.names:
        return rows
    column, text = rows[selection.column], selection.text
    if not pa.types.is_string(column.type):
        texts = [format_cell(value, sys.maxsize) for value in column.to_pylist()]
        column = pa.chunked_array([pa.array(texts, pa.string())])
    return rows.filter(pc.match_substring(column, text, ignore_case=True))


def _sort(rows: pa.Table, versions: Sequence[int | None], count: int) -> list[int]:
    """Return which rows are the newest, as many as wanted."""
    if _PLACE[0] not in rows.schema.names:
        return list(reversed(range(max(0, rows.num_rows - count), rows.num_rows)))
    seen, turns = Counter[str](), Counter[tuple[str, int | None]]()
    keys: list[tuple[float, int, str, int]] = []
    segments = rows[_PLACE[0]].to_pylist()
    for index in range(rows.num_rows - 1, -1, -1):
        segment, version = segments[index], versions[index]
        seen[segment] += 1
        if seen[segment] <= count:
            turns[segment, version] += 1
            keys.append((-math.inf if version is None else -version, turns[segment, version], segment, index))
    return [key[-1] for key in sorted(keys)[:count]]
