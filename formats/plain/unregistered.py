"""Errors of the formats that have neither a schema in the registry nor its header before events."""

from __future__ import annotations

from pyspark_pravega.errors import UnsupportedOperationError


def check_bare(format: str, encoding_id: int | None, codec: str) -> None:
    """Raise UnsupportedOperationError for a registry header or a codec, which events of the format cannot have."""
    if encoding_id is not None or codec not in ("", "none"):
        raise UnsupportedOperationError(
            f"{format} events have neither registry header nor codec; use format avro or json, or leave 'codec' out"
        )


def no_schema(format: str) -> UnsupportedOperationError:
    """Return the error for a type name that is asked for: only the registry has those."""
    return UnsupportedOperationError(f"a {format} table has no schema in the registry; use format avro or json")
