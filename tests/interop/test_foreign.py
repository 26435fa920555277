"""The harness itself: Java writes, Java reads, on both kinds of cluster."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest

from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream_cut import StreamCut
from pyspark_pravega.local.state import ClusterInfo
from tests.interop.foreign import Codec, Foreign, ForeignClient, Keyed
from tests.interop.java_process import JavaError

V1 = {"type": "record", "name": "Reading", "namespace": "plant", "fields": [{"name": "id", "type": "int"}]}
V2 = {**V1, "fields": [*V1["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}


@pytest.fixture(params=["plain", "secure"])
def java(request: pytest.FixtureRequest, foreign: Foreign) -> Iterator[tuple[ForeignClient, str]]:
    """A client of each kind of cluster, and a scope there."""
    if request.param == "plain":
        yield foreign.connect(request.getfixturevalue("cluster")), request.getfixturevalue("scope")
    else:
        secure = request.getfixturevalue("secure_cluster")
        yield foreign.connect(secure, "admin"), request.getfixturevalue("secure_scope")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy"])
def test_avro(java: tuple[ForeignClient, str], codec: Codec) -> None:
    client, scope = java
    client.create_stream(scope, "readings", segments=2)
    client.write_avro(scope, "readings", V1, [("a", {"id": 1}), (None, {"id": 2})], codec=codec)
    second: Keyed = ("a", {"id": 3, "note": {"string": "wärm"}})
    client.write_avro(scope, "readings", V2, [second], codec=codec, transactional=True)

    events = client.read(scope, "readings", "avro")
    assert sorted((event.value for event in events), key=lambda value: int(value["id"])) == [
        {"id": 1},
        {"id": 2},
        {"id": 3, "note": {"string": "wärm"}},
    ]
    assert all(event.payload[0] == 1 for event in events)
    of_a = [event.segment for event in events if event.value["id"] in (1, 3)]
    assert len(set(of_a)) == 1
    newer = client.read(scope, "readings", "avro", schema=V2)
    assert {event.value["id"]: event.value["note"] for event in newer} == {1: None, 2: None, 3: {"string": "wärm"}}
    if codec == "gzip":
        first = next(event for event in events if event.value["id"] == 1)
        assert gzip.decompress(first.payload[5:]).startswith(b"\x02")


def test_avro_without_registry(foreign: Foreign, cluster: ClusterInfo, scope: str) -> None:
    client = foreign.connect(cluster)
    client.create_stream(scope, "plain")
    client.write_avro(scope, "plain", V1, [("a", {"id": 1})], framed=False)
    (event,) = client.read(scope, "plain", "avro", schema=V1, framed=False)
    assert (event.payload, event.value) == (b"\x02", {"id": 1})


def test_json(java: tuple[ForeignClient, str]) -> None:
    client, scope = java
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    client.create_stream(scope, "items")
    client.write_json(scope, "items", "Item", schema, [("a", {"id": 1, "name": "ß"})], codec="snappy")
    client.write_json(scope, "items", "Item", schema, [("a", {"id": 2})], transactional=True)
    assert [event.value for event in client.read(scope, "items", "json")] == [{"id": 1, "name": "ß"}, {"id": 2}]
    assert [event.value["id"] for event in client.read(scope, "items", "any")] == [1, 2]

    client.create_stream(scope, "bare")
    client.write_json(scope, "bare", "Item", schema, [("a", {"id": 1})], framed=False)
    (event,) = client.read(scope, "bare", "json", framed=False)
    assert (event.payload, event.value) == (b'{"id":1}', {"id": 1})


def test_bytes_text_and_cuts(foreign: Foreign, cluster: ClusterInfo, client_config: ClientConfig, scope: str) -> None:
    client = foreign.connect(cluster)
    client.create_stream(scope, "raw")
    client.write_bytes(scope, "raw", [("a", b"\x00\xff"), ("b", b"")], transactional=True)
    client.write_text(scope, "raw", [("a", "grün\n")])
    events = client.read(scope, "raw")
    assert [event.payload for event in events] == [b"\x00\xff", b"", "grün\n".encode()]
    assert [event.offset for event in events] == [0, 10, 18]
    assert client.read(scope, "raw", "text")[2].value == "grün\n"
    cuts = client.cuts(scope, "raw")
    assert dict(StreamCut.from_text(cuts.head).positions) == {0: 0}
    assert dict(StreamCut.from_text(cuts.tail).positions) == {0: 32}


def test_refusals_come_out(foreign: Foreign, secure_cluster: ClusterInfo, secure_scope: str) -> None:
    with pytest.raises(JavaError, match="Authorization"):
        foreign.connect(secure_cluster, "nobody").create_stream(secure_scope, "s")
    foreign.connect(secure_cluster, "admin").create_stream(secure_scope, "s")
    with pytest.raises(JavaError, match="UNSUPPORTED|unknown format"):
        foreign.connect(secure_cluster, "admin").read(secure_scope, "s", "csv")  # type: ignore[arg-type]
