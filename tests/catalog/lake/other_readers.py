"""Reads a table of a lake by Polars and DuckDB, beside pyiceberg, in an environment that has all three.

    python tests/catalog/lake/other_readers.py SETTINGS TABLE

SETTINGS are those of the catalog, as JSON. It prints for each reader which columns differ from those of pyiceberg.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import duckdb
import pyarrow as pa
from pyiceberg.catalog import load_catalog


def read_by_polars(table: Any) -> pa.Table:
    """Let Polars read the files itself."""
    polars: Any = import_module("polars")
    rows: pa.Table = polars.scan_iceberg(table, reader_override="native").collect().to_arrow()
    return rows


def read_by_duckdb(table: Any) -> pa.Table:
    """Let DuckDB's own extension read the table, from its metadata file on."""
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as duck:
        for name in ("avro", "iceberg"):
            folder = Path(import_module(f"duckdb_extension_{name}").__file__ or "").parent
            [extension] = folder.rglob(f"{name}.duckdb_extension")
            duck.execute(f"LOAD '{extension}'")
        metadata = urlparse(table.metadata_location).path
        rows: pa.Table = duck.execute(f"SET TimeZone = 'UTC'; FROM iceberg_scan('{metadata}')").to_arrow_table()
        return rows


def compare(rows: pa.Table, expected: pa.Table) -> list[str]:
    """Return the columns of rows that differ from those that are expected, whatever their order."""
    values = {name: rows.sort_by("id").column(name).to_pylist() for name in rows.column_names}
    return [
        name for name in expected.column_names if values.get(name) != expected.sort_by("id").column(name).to_pylist()
    ]


if __name__ == "__main__":
    loaded = load_catalog("lake", **json.loads(sys.argv[1])).load_table(sys.argv[2])
    whole = loaded.scan().to_arrow()
    readers = {"polars": read_by_polars, "duckdb": read_by_duckdb}
    print(json.dumps({"rows": len(whole)} | {name: compare(read(loaded), whole) for name, read in readers.items()}))
