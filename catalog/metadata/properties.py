"""The metadata table of a table's properties, which can be read where the table cannot."""

from __future__ import annotations

from pyspark.sql.types import StringType, StructType

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.tables.loading import SCHEMA_KEY, load_table, stored_properties
from pyspark_pravega.errors import PravegaError, StreamNotFoundError

from ..table_properties import shown, shown_of_stream
from .table import MetadataTable, Rows, column


def _properties(pravega: Pravega, stream: Stream) -> Rows:
    try:
        found = shown(load_table(pravega, stream))
    except StreamNotFoundError:
        raise
    except PravegaError:  # the schema is missing, or cannot be read
        configuration = pravega.controller.stream_configuration(stream)
        stored = {key: text for key, text in stored_properties(configuration.tags).items() if key != SCHEMA_KEY}
        found = stored | shown_of_stream(configuration)
    yield from sorted((key, text) for key, text in found.items() if key != "provider")


PROPERTIES = MetadataTable(
    "properties",
    StructType(
        [
            column("key", StringType(), "as CREATE TABLE takes it in TBLPROPERTIES, and the comment", nullable=False),
            column("value", StringType(), "its text", nullable=False),
        ]
    ),
    _properties,
)
