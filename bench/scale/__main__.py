"""How time and memory grow with events, segments, columns and streams, and writes with the size of events.

    python -m bench.scale [events] [segments] [columns] [streams] [writes] [--out build/scale]
    python -m bench.scale plot [--out build/scale] [--pictures docs/benchmarks]

Without a part, all are measured and drawn. Each part writes JSON files into the directory `--out`, so that they can be
run one by one, even with one format each; `plot` draws what is there.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from . import columns, events, pictures, segments, streams, writes

PARTS = {
    "events": events.main,
    "segments": segments.main,
    "columns": columns.main,
    "streams": streams.main,
    "writes": writes.main,
}
INSIDE = {"links": writes.measure_inside}
"""What a part starts inside of a link."""


def main() -> None:
    """Measure the parts that are named, or draw."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"{', '.join(PARTS)}, plot; all by default")
    parser.add_argument("--out", type=Path, default=Path("build/scale"))
    parser.add_argument("--pictures", type=Path, default=Path("docs/benchmarks"))
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--events", default="1e8", help="events of the largest table")
    parser.add_argument("--formats", default="raw,avro", help="formats by which events are counted")
    parser.add_argument("--segments", type=int, default=64, help="segments of the widest stream")
    parser.add_argument("--events-in-segments", default="2e6", help="events of each table, in however many segments")
    parser.add_argument("--columns", type=int, default=1000, help="columns of the widest table")
    parser.add_argument("--formats-of-columns", default="avro,json", help="formats by which columns are counted")
    parser.add_argument("--values", default="4e6", help="values of each table, in however many columns")
    parser.add_argument("--streams", default="1e4", help="streams of the largest scope")
    parser.add_argument("--megabytes", type=int, default=128, help="megabytes of each INSERT of writes")
    arguments = parser.parse_args()
    parts = arguments.parts or [*PARTS, "plot"]
    if unknown := set(parts) - {*PARTS, *INSIDE, "plot"}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    for part in parts:
        if part == "plot":
            pictures.main(arguments.out, arguments.pictures)
        else:
            (PARTS | INSIDE)[part](arguments, arguments.out)


if __name__ == "__main__":
    main()
