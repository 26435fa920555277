"""Streams that exist before their table: which of them can become one, and with which columns."""

from __future__ import annotations

from pyspark.sql.types import StructType

from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.changes.inference import infer_columns
from pyspark_pravega.datasource.tables.loading import LoadedTable, load_table
from pyspark_pravega.errors import StreamExistsError, StreamNotFoundError, UnsupportedTypeError
from pyspark_pravega.formats.changes.debezium.avro import DebeziumAvroFormat, columns_of_envelope, is_envelope
from pyspark_pravega.sql.table_settings import TableSettings

from .connections import Catalog


def existing(catalog: Catalog, stream: Stream) -> LoadedTable | None:
    """Load the table that a stream is now, None if there is none."""
    try:
        return load_table(catalog.pravega, stream)
    except StreamNotFoundError:
        return None


def adoptable(found: LoadedTable) -> bool:
    """Tell whether a stream can become another table: it has no schema, or that of Debezium's envelopes."""
    return "format" not in found.stored and (found.table.format == "raw" or has_envelopes(found))


def has_envelopes(found: LoadedTable) -> bool:
    """Tell whether others registered a schema of Debezium's envelopes for its events."""
    table = found.table
    return table.format == "avro" and table.schema_text is not None and is_envelope(table.schema_text)


def check_envelopes(found: LoadedTable, settings: TableSettings) -> None:
    """Raise StreamExistsError unless the table is made of these envelopes."""
    if (settings.format, settings.framing) != (DebeziumAvroFormat.name, "registry"):
        raise StreamExistsError(
            f"The stream {found.table.stream} exists, and its schema is one of Debezium's envelopes. Its rows are the "
            f"table with 'format'='{DebeziumAvroFormat.name}', 'framing'='registry'."
        )


def columns_of_events(catalog: Catalog, stream: Stream, settings: TableSettings) -> StructType:
    """Return the columns that the events' schemas tell. Raises UnsupportedTypeError if they tell none."""
    columns = None
    found = existing(catalog, stream)
    if found is not None and has_envelopes(found):
        columns = columns_of_envelope(found.table.schema_text or "")
    elif found is not None:
        columns = infer_columns(catalog.pravega, stream, settings.format, settings.format_settings)
    if columns is None:
        raise UnsupportedTypeError(
            "It declares no columns, and no event of its stream has a schema that tells them. Declare them, or have "
            "them told by the values of events with the table property 'infer-columns'='sample' (JSON only)."
        )
    return columns
