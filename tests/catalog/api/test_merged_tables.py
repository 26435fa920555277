"""A table of several streams without Spark: made, scanned, followed, refused where it needs one stream."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyspark_pravega.catalog import PravegaCatalog, Table
from pyspark_pravega.errors import (
    CheckpointError,
    DataLossError,
    InvalidNameError,
    InvalidOptionError,
    MemberNotFoundError,
    PravegaError,
    StreamExistsError,
    StreamNotFoundError,
    UnsupportedOperationError,
)

COLUMNS = pa.schema([("id", pa.int64()), ("temp", pa.float64())])


@pytest.fixture
def halls(api: PravegaCatalog, scope: str) -> Table:
    """Two streams with three rows, and a table of those of the pattern."""
    for name, ids in (("hall-a", [1, 2]), ("hall-b", [3])):
        table = api.create_table(f"`{scope}`.`{name}`", COLUMNS, properties={"format": "json"})
        table.append(pa.table({"id": ids, "temp": [20.0 + id for id in ids]}))
    return api.create_table(f"`{scope}`.halls", comment="of all", properties={"pattern": "hall-.*"})


def append(api: PravegaCatalog, scope: str, name: str, *ids: int) -> None:
    api.load_table(f"`{scope}`.`{name}`").append(pa.table({"id": ids}))


def test_it_is_read_as_any_table(api: PravegaCatalog, halls: Table, scope: str) -> None:
    assert api.list_tables(f"`{scope}`") == [f"`{scope}`.{name}" for name in ("hall_a", "hall_b", "halls")]
    assert api.table_exists(f"`{scope}`.halls")
    assert halls.schema.names == ["id", "temp"] and halls.streams == [f"{scope}/hall-a", f"{scope}/hall-b"]
    assert dict(halls.properties) == {"provider": "pravega", "pattern": "hall-.*", "comment": "of all"}
    found = halls.scan(["_stream", "_scope", "id"]).to_arrow().to_pylist()
    assert sorted((row["_stream"], row["_scope"], row["id"]) for row in found) == [
        *(("hall-a", scope, 1), ("hall-a", scope, 2), ("hall-b", scope, 3)),
    ]
    assert halls.scan().count() == 3 and halls.head(2).num_rows == 2
    of_b = halls.scan(["id"], pc.field("_stream") == "hall-b")
    assert of_b.to_arrow().to_pylist() == [{"id": 3}] and len(of_b.tasks()) == 1 and of_b.count() == 1
    warm = halls.scan(["id"], pc.field("temp") > 21.5).to_arrow()
    assert sorted(warm["id"].to_pylist()) == [2, 3]
    halls.set_properties({"streams": "hall_b", "comment": None})
    assert dict(halls.properties) == {"provider": "pravega", "streams": "hall-b"} and halls.scan().count() == 1
    with pytest.raises(StreamExistsError, match="halls"):
        api.create_table(f"`{scope}`.halls", COLUMNS)
    with pytest.raises(InvalidOptionError, match="'streams' and 'pattern'"):
        api.create_table(f"`{scope}`.more", properties={"streams": "hall-a", "pattern": "hall-b"})
    api.drop_table(f"`{scope}`.halls")
    assert not api.table_exists(f"`{scope}`.halls") and api.load_table(f"`{scope}`.hall_a").scan().count() == 2
    with pytest.raises(StreamNotFoundError):
        api.drop_table(f"`{scope}`.halls")


def test_it_is_followed_with_streams_that_come(api: PravegaCatalog, halls: Table, scope: str) -> None:
    """Positions can be stored; a program that goes on with one reads new streams from their heads, once."""
    options = {"discovery-interval": "1s"}
    found: list[tuple[str, int]] = []
    position = None

    def take(table: Table, **more: object) -> None:
        nonlocal position
        for new in table.follow(["id", "_stream"], position=position, options=options, **more):  # type: ignore[arg-type]
            found.extend((row["_stream"], row["id"]) for row in new.rows.to_pylist())
            position = new.position
            if len(found) >= 6:
                break

    take(halls, available_now=True)
    assert sorted(found) == [("hall-a", 1), ("hall-a", 2), ("hall-b", 3)]
    append(api, scope, "hall-a", 4)
    api.create_table(f"`{scope}`.hall_c", COLUMNS, properties={"format": "json"})
    append(api, scope, "hall-c", 5, 6)
    take(halls, timeout=60)  # loaded before the stream was made
    assert sorted(found) == [*(("hall-a", id) for id in (1, 2, 4)), ("hall-b", 3), ("hall-c", 5), ("hall-c", 6)]
    append(api, scope, "hall-c", 7)
    halls.refresh()
    found.clear()
    take(halls, available_now=True)
    assert found == [("hall-c", 7)]
    halls.set_properties({"pattern": "hall-[ab]"})
    with pytest.raises(DataLossError, match="hall-c"):
        list(halls.follow(position=position, available_now=True))
    with pytest.raises(CheckpointError):
        halls.follow(position=api.load_table(f"`{scope}`.hall_a").history()[0].position)


def test_what_needs_one_stream(api: PravegaCatalog, halls: Table, scope: str) -> None:
    name = f"`{scope}`.halls"
    calls: list[Callable[[], object]] = [
        lambda: halls.append(pa.table({"id": [1]})),
        halls.history,
        halls.size,
        halls.schema_versions,
        lambda: halls.changes(),
        lambda: halls.scan(as_of=1),
        lambda: halls.add_column(pa.field("more", pa.int32())),
        lambda: halls.scan(options={"schema-version": "0"}),
    ]
    for call in calls:
        with pytest.raises(UnsupportedOperationError, match="halls.*(several streams|its streams)"):
            call()
    with pytest.raises(InvalidNameError, match="whose names match 'hall-.*', and has no metadata tables"):
        halls.inspect("history")
    with pytest.raises(InvalidOptionError, match="'end-version'"):
        halls.scan(end=1).to_arrow()
    api.drop_table(f"`{scope}`.hall_a")
    api.drop_table(f"`{scope}`.hall_b")
    with pytest.raises(MemberNotFoundError, match="'pattern'='hall-.*'"):
        api.load_table(name)
    api.drop_table(name)


def test_one_odd_stream_is_named(api: PravegaCatalog, halls: Table, scope: str) -> None:
    api.create_table(f"`{scope}`.hall_odd", pa.schema([("id", pa.string())]), properties={"format": "json"})
    with pytest.raises(PravegaError, match=f"column id is string in stream {scope}/hall-odd"):
        api.load_table(f"`{scope}`.halls")
