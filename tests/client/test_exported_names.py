"""The names that programs import from the client."""

from __future__ import annotations

from pyspark_pravega import client


def test_each_exported_name_is_there() -> None:
    assert [name for name in client.__all__ if not hasattr(client, name)] == []
