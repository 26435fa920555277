"""What tasks are handed holds tokens, and shows none when it is printed, as Spark and tracebacks do."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from pyspark_pravega.client.config import Endpoint
from pyspark_pravega.datasource.changes.group_reader import GroupPartition
from pyspark_pravega.datasource.insert.task import InsertSpec
from pyspark_pravega.datasource.positions.snapshot import SegmentSlice
from pyspark_pravega.datasource.scan.reader import SlicePartition

TOKEN = "header.claims.signature"


def test_a_partition_of_a_scan() -> None:
    partition = SlicePartition(SegmentSlice(3, 0, 99), Endpoint("store", 12345), TOKEN)
    assert partition.token == TOKEN
    for shown in (repr(partition), str(partition), f"{[partition]}"):
        assert TOKEN not in shown and "12345" in shown


@pytest.mark.parametrize("kind", [InsertSpec, SlicePartition, GroupPartition])
def test_every_field_but_the_token_is_shown(kind: type) -> None:
    made: Any = object.__new__(kind)
    for field in fields(kind):
        object.__setattr__(made, field.name, f"value of {field.name}")
    assert made.token == "value of token"
    shown = repr(made)
    assert [field.name for field in fields(kind) if f"value of {field.name}" not in shown] == ["token"]
