"""The metadata table `lake`: what a table's lake has, and what it lacks. It has no row without a lake."""

from __future__ import annotations

import pyspark.sql.types as T

from pyspark_pravega.client.consumers.consumer import count_bytes_after
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.lake.open_lake import open_lake
from pyspark_pravega.datasource.tables.loading import load_table
from pyspark_pravega.datasource.tables.stored_properties import read_own_properties
from pyspark_pravega.sql import options as o

from ..storage.catalogs import Catalog
from .metadata_table import MetadataTable, Rows, column


def _read(catalog: Catalog, stream: Stream) -> Rows:
    name = read_own_properties(catalog.pravega.controller.stream_configuration(stream).tags).get(o.LAKE.key)
    if name is None:
        return
    lake = open_lake(catalog.open_table(load_table(catalog.pravega, stream).table))
    if lake is None or lake.history is None:
        behind = count_bytes_after(catalog.pravega, catalog.pravega.controller.head(stream))
        yield name, None, None, 0, 0, 0, None, None, behind
        return
    history, snapshot = lake.history, lake.snapshot
    yield (
        name,
        history.version,
        history.cut.to_text(),
        history.rows,
        snapshot.files,
        snapshot.bytes,
        snapshot.number,
        snapshot.timestamp,
        count_bytes_after(catalog.pravega, history.cut),
    )


lake = MetadataTable(
    "lake",
    T.StructType(
        [
            column("table", T.StringType(), "the lake's table, in the catalog of lakes", nullable=False),
            column("version", T.LongType(), "versions up to this one lie in files; null if none does"),
            column("stream_cut", T.StringType(), "what lies before it in the stream is in files"),
            column("rows", T.LongType(), "in files", nullable=False),
            column("files", T.LongType(), "of data", nullable=False),
            column("bytes", T.LongType(), "of these files", nullable=False),
            column("snapshot_id", T.LongType(), "Iceberg's number of what is read"),
            column("updated_at", T.TimestampType(), "when that was committed"),
            column("bytes_behind", T.LongType(), "in the stream, which the lake does not have yet"),
        ]
    ),
    _read,
)
