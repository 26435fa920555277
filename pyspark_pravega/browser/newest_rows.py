"""Finds the newest rows of a table without reading the rest of it.

Events can be read only from a place where one begins. Such places are known where a version ends, and where the
watermarks of writers are. The earliest one from which little is left to read is the start.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from pyspark_pravega.catalog import PravegaCatalog, Table
from pyspark_pravega.catalog.api.summary import has_one_stream
from pyspark_pravega.errors import PravegaError
from pyspark_pravega.formats.core.format import find_format
from pyspark_pravega.sql.identifiers import quote_all
from pyspark_pravega.sql.options import FORMAT
from pyspark_pravega.values_as_text import format_bytes

WANTED = 50
MOST_BYTES = 4 << 20
"""What one page reads at most, apart from single events that are larger."""
_VERSIONS = 256
_PLACE = ("_segment", "_offset")
_OPTIONS = {"mode": "permissive", "fail-on-data-loss": "false"}


@dataclass(frozen=True)
class NewestRows:
    """Rows to show, the newest first if their order is known, and a sentence that says which rows these are."""

    rows: pa.Table
    says: str


def find_newest_rows(catalog: PravegaCatalog, table: Table, place: tuple[str, str]) -> NewestRows:
    """Read the newest rows of a table, which has this scope and name. Raises the errors of reading it."""
    if not has_one_stream(table):
        rows = table.scan(limit=WANTED).to_arrow()
        return NewestRows(rows, "Rows of such a table have no common order. These are the first ones that were found.")
    what = ""
    if getattr(find_format(table.properties[FORMAT.key]), "changes", False):
        table = catalog.load_table(quote_all((place[0], f"{place[1]}$changelog")))
        what = "The events of this table are changes of rows. These are the changes. "
    return _read_end(catalog, table, place, what)


def _read_end(catalog: PravegaCatalog, table: Table, place: tuple[str, str], what: str) -> NewestRows:
    columns = [*(name for name in _PLACE if name in table.hidden_columns), *table.schema.names]
    size = table.size().bytes
    if size <= MOST_BYTES:
        rows = table.scan(columns, options=_OPTIONS).to_arrow()
        return NewestRows(_take_last(rows), f"{what}The newest rows of each segment, the last one first.")
    places = _list_places(catalog, table, place)
    first = bisect_left(places, True, key=lambda cut: table.size(cut).bytes <= MOST_BYTES)
    if first < len(places) and table.size(places[first]).bytes > 0:
        rows = table.scan(columns, start=places[first], options=_OPTIONS).to_arrow()
        return NewestRows(_take_last(rows), f"{what}The newest rows of each segment, the last one first.")
    start = places[first - 1] if first else None
    rows = table.scan(columns, limit=WANTED, start=start, options=_OPTIONS).to_arrow()
    left = format_bytes(size if start is None else table.size(start).bytes)
    return NewestRows(
        rows,
        f"{what}The newest rows are the last of {left} of events between two known positions, too much to read for a "
        "page. These are the first ones after the earlier position.",
    )


def _list_places(catalog: PravegaCatalog, table: Table, place: tuple[str, str]) -> Sequence[str]:
    """Return the known stream cuts near the end of a table, the earliest first."""
    try:
        versions = table.history(newest=_VERSIONS)
    except PravegaError:
        versions = []  # the user may not read the commit log
    if versions:
        return [version.position for version in versions]
    cuts = catalog.inspect(quote_all(place), "stream_cuts").to_pylist()
    return [cut["stream_cut"] for cut in cuts if cut["kind"] == "watermark"]


def _take_last(rows: pa.Table) -> pa.Table:
    """Return the last rows of each segment, the last one first; all segments get the same share."""
    if _PLACE[0] not in rows.schema.names:
        return rows.slice(max(0, rows.num_rows - WANTED)).take(list(reversed(range(min(WANTED, rows.num_rows)))))
    places: dict[str, list[int]] = {}
    for index, segment in enumerate(rows[_PLACE[0]].to_pylist()):
        places.setdefault(segment, []).append(index)
    share = -(-WANTED // max(1, len(places)))
    taken = [index for segment in sorted(places) for index in reversed(places[segment][-share:])]
    return rows.take(pa.array(taken[:WANTED], pa.int64()))
