"""Changes of rows one by one, as a decoder of a change format gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pyspark_pravega.datasource.changes.rows.clearing import TABLE_OF_MARK
from pyspark_pravega.formats.changes.feed import POSITION_TYPE

ROW = pa.struct([("id", pa.int64()), ("v", pa.string()), ("w", pa.string())])
SCHEMA = pa.schema(
    [
        ("op", pa.string()),
        ("before", pa.struct([("id", pa.int64())])),
        ("after", ROW),
        ("ts", pa.timestamp("us", "UTC")),
        ("unavailable", pa.list_(pa.field("element", pa.string(), nullable=False))),
        ("position", POSITION_TYPE),
        ("marks", pa.struct([(name, pa.string()) for name in ("snapshot", *TABLE_OF_MARK)])),
    ]
)


@dataclass(frozen=True)
class Change:
    """One change. `at` is the position, `time` the database's, `ts` the connector's; None: not told."""

    op: str | None
    id: int | None = None
    v: str | None = None
    at: int | None = None
    ts: int | None = None
    time: int | None = None
    former: int | None = None
    without: tuple[str, ...] = ()
    segment: int = 0
    origin: str = "postgresql/x/db"
    snapshot: str = "false"
    table: str = "t"

    def row(self) -> dict[str, Any]:
        after = {"id": self.id, "v": None if "v" in self.without else self.v, "w": "w"}
        former = self.id if self.op == "d" else self.former
        return {
            "op": self.op,
            "before": None if former is None else {"id": former},
            "after": after if self.op in ("c", "u", "r") else None,
            "ts": self.ts,
            "unavailable": list(self.without),
            "position": None
            if self.op is None
            else {
                "origin": None if self.at is None else self.origin,
                "major": self.at,
                "minor": 0,
                "row": 0,
                "time": self.time,
            },
            "marks": {"snapshot": self.snapshot, "table": self.table},
        }
