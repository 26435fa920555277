"""Finds changes whose columns are named as the table's, but in other letters: Oracle writes `ID`, others write `id`.

Columns are found by their names as they are, so that such a change would be a row of nulls. What has a schema is judged
by it. Without a schema a column that is not there may be one that was added later, so that only a row of which not one
column is known is judged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

_OF_ENVELOPES = frozenset(
    "after before change_lsn commit_lsn commit_scn commit_ts_ms connector data_collection_order db event_serial_no "
    "file gtid id lcr_position lsn name op origin pos query redo_thread row row_id rs_id schema scn sequence server_id "
    "snapshot source ssn start_scn start_ts_ms table thread total_order transaction ts_ms ts_ns ts_us txId user_name "
    "version xmin".split()
)
"""What Debezium's envelopes have besides the rows: such a name in an event may be no column."""


class LetterCase:
    """The names of a table's columns, and what is wrong with those of a change."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)
        self._folded = {name.lower(): name for name in names}
        self._quoted = [f'"{name}"'.encode(errors="replace") for name in self._names - _OF_ENVELOPES]

    def of_schema(self, names: Iterable[str]) -> str | None:
        """Return why a row with these columns is bad: one of the table's is there in other letters only."""
        there = frozenset(names)
        for name in sorted(there - self._names):
            wanted = self._folded.get(name.lower())
            if wanted is not None and wanted not in there:
                return (
                    f"it has no column '{wanted}', but '{name}', and names count with their case; name the table's "
                    f"column `{name}`, which SQL finds as {wanted} too"
                )
        return None

    def may_lack_all(self, payload: bytes) -> bool:
        """Tell whether the bytes of an event in JSON may be of a row without one of the table's columns."""
        return not any(name in payload for name in self._quoted)

    def of_row(self, row: Mapping[str, Any] | None) -> str | None:
        """Return the same of a row without a schema."""
        # The first column is known almost always.
        if not row or not self._names.isdisjoint(row):
            return None
        return self.of_schema(row)
