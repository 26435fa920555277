"""The header of events that are written: which schema of the registry, and which codec."""

from __future__ import annotations

from pyspark_pravega.client import Pravega
from pyspark_pravega.client.cancellation import begun
from pyspark_pravega.client.registry.types import VersionInfo
from pyspark_pravega.errors import InvalidSchemaError

from ..tables.stream_table import REGISTRY_CODECS, StreamTable


def encoding_id(pravega: Pravega, table: StreamTable) -> int | None:
    """Return the id in the header of events, None for events without one.

    Raises InvalidSchemaError if the table was made again with other columns.
    """
    if not table.framed or table.schema_version is None:
        return None
    registry = pravega.registry(table.stream.scope)
    version = VersionInfo.from_json(table.schema_version)
    asked = begun(lambda: registry.encoding_id(table.stream.name, version, REGISTRY_CODECS[table.codec]))
    # A group that was deleted and made again counts its versions anew.
    if registry.schema_by_id(table.stream.name, version.id).text != table.schema_text:
        raise InvalidSchemaError(
            f"The table of stream {table.stream} was dropped and made again with other columns after this "
            "statement or streaming query was planned. Nothing was written; start it again."
        )
    id = asked()
    pravega.known_streams.note_encoding(table.stream, id)
    return id
