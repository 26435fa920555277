"""The catalog as web pages: what they show, and what they refuse."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from html import unescape

import httpx
import pyarrow as pa
import pytest
from click.testing import CliRunner

from pyspark_pravega.catalog import PravegaCatalog, connect
from pyspark_pravega.client import Pravega, StreamConfiguration
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.consumers.consumer import Consumer
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.commands.cli import main
from pyspark_pravega.local.state import ClusterInfo
from tests.front_ends.pages import serving
from tests.spark_servers import free_port

MARKUP = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def catalog(cluster: ClusterInfo) -> Iterator[PravegaCatalog]:
    """The catalog that the pages show."""
    with connect(controller_uri=cluster.controller_uri, schema_registry_uri=cluster.registry_uri) as connected:
        yield connected


@pytest.fixture(scope="module")
def client(catalog: PravegaCatalog) -> Iterator[httpx.Client]:
    """A client of the pages."""
    with serving(catalog) as connected:
        yield connected


def read_page(client: httpx.Client, path: str, status: int = 200) -> str:
    """The page, whose text must be the same as its markup's: without tags, entities and runs of white space."""
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    assert "Traceback" not in answer.text and MARKUP not in answer.text
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def test_a_table_is_shown_from_all_sides(
    client: httpx.Client, catalog: PravegaCatalog, pravega: Pravega, scope: str
) -> None:
    columns = pa.schema(
        [pa.field("id", pa.int64(), metadata={"comment": MARKUP}), ("note", pa.string()), ("image", pa.binary())]
    )
    properties = {"scaling.min-segments": "2", "retention.type": "size", "retention.minimum": "1g", "routing-key": "id"}
    table = catalog.create_table(f"`{scope}`.things", columns, comment=MARKUP, properties=properties)
    table.append(pa.table({"id": range(40), "note": [MARKUP] * 40, "image": [b"\xff" * 30_000] * 40}))
    stream = Stream(scope, "things")
    Consumer.register(pravega, stream, "nightly", pravega.controller.head(stream))
    first = min(pravega.controller.current_segments(stream), key=lambda segment: segment.min_key)
    pravega.controller.scale_stream(stream, [first.segment_id], [(0.0, 0.25), (0.25, first.max_key)])
    table.add_column(pa.field("size", pa.int32()))
    table.append(pa.table({"id": [1000], "note": ["the newest"], "size": pa.array([7], pa.int32())}))

    place = f"/tables/{scope}/things"
    assert re.search(rf"{scope.replace('-', '_')} [1-9]", read_page(client, "/"))
    assert re.search(r"things avro 3 1\.\d MiB size 1g", read_page(client, f"/scopes/{scope}"))
    shown = read_page(client, place)
    assert f"id BIGINT {MARKUP}" in shown and f"comment {MARKUP}" in shown and "routing-key id" in shown
    shown = read_page(client, f"{place}/schemas")
    assert "+ size INT" in shown and "+ note STRING" in shown and "~" not in shown
    shown = read_page(client, f"{place}/rows")
    assert "1000 the newest NULL 7" in shown and f"39 {MARKUP} X'FFFF" in shown and len(shown) < 30_000
    segments = client.get(f"{place}/segments").text
    assert len(re.findall(r"<rect class=\"h\d( open)?\" x=", segments)) == 4
    assert "segment 0 of epoch 0, sealed: keys 0 to 0.5" in segments
    shown = read_page(client, f"{place}/segments")
    assert "growth 0 B/s" in shown and "epoch 1" in shown
    shown = read_page(client, f"{place}/versions")
    assert "last hour 2 commits, 41 rows" in shown and re.search(r"2 20\d\d-\S+ \S+ INSERT 1 ", shown)
    assert "No transaction waits" in read_page(client, f"{place}/transactions")
    assert re.search(r"nightly 1\.\d MiB ", read_page(client, f"{place}/consumers"))
    assert "started by CALL" in read_page(client, "/queries") or "Rows/s" in read_page(client, "/queries")


def test_tables_of_other_kinds(client: httpx.Client, catalog: PravegaCatalog, pravega: Pravega, scope: str) -> None:
    entries = catalog.create_table(
        f"`{scope}`.machine",
        pa.schema([("id", pa.int64()), ("state", pa.string())]),
        properties={"format": "kvtable", "primary-key": "id"},
    )
    entries.append(pa.table({"id": [5], "state": ["idle"]}))
    pravega.controller.create_stream(Stream(scope, "bare"), StreamConfiguration())
    catalog.create_table(f"`{scope}`.all", properties={"streams": "bare"})
    shown = read_page(client, f"/scopes/{scope}")
    assert "machine kvtable" in shown and "all several streams" in shown
    assert "Segments" not in read_page(client, f"/tables/{scope}/machine")
    assert "5 idle" in read_page(client, f"/tables/{scope}/machine/rows")
    assert "There are no rows" in read_page(client, f"/tables/{scope}/bare/rows")
    assert "no schema in the registry" in read_page(client, f"/tables/{scope}/bare/schemas")
    read_page(client, f"/tables/{scope}/all/rows")
    read_page(client, f"/tables/{scope}/all/segments", 404)


def test_newest_rows_are_found_without_reading_all(client: httpx.Client, catalog: PravegaCatalog, scope: str) -> None:
    table = catalog.create_table(f"`{scope}`.long", pa.schema([("id", pa.int64()), ("text", pa.string())]))
    for number in range(6):
        table.append(pa.table({"id": [number] * 2, "text": ["x" * 900_000] * 2}))
    shown = read_page(client, f"/tables/{scope}/long/rows")
    assert re.findall(r" (\d) xxx", shown) == ["5", "5", "4", "4"]
    table.append(pa.table({"id": range(10, 16), "text": ["x" * 900_000] * 6}))
    shown = read_page(client, f"/tables/{scope}/long/rows")
    assert "too much to read for a page" in shown
    assert re.findall(r" (\d+) xxx", shown) == [str(number) for number in range(10, 16)]


def test_lists_are_searched_and_have_pages(client: httpx.Client, pravega: Pravega, scope: str) -> None:
    for number in range(53):
        pravega.controller.create_stream(Stream(scope, f"machine{number:02}"), StreamConfiguration())
    shown = read_page(client, f"/scopes/{scope}")
    assert "53 tables, page 1 of 2" in shown and "machine49" in shown and "machine50" not in shown
    shown = read_page(client, f"/scopes/{scope}?q=&page=2")
    assert "machine50" in shown and "machine49" not in shown
    assert read_page(client, f"/scopes/{scope}?page=99999") == shown
    read_page(client, f"/scopes/{scope}?page=-1&q=%00")
    shown = read_page(client, f"/scopes/{scope}?q=NE07")
    assert "1 table with “NE07” in the name" in shown and "machine07" in shown
    assert f"No table has “{MARKUP}”" in read_page(client, f"/scopes/{scope}?q={MARKUP}")


def test_a_name_that_is_wrong_is_a_sentence(client: httpx.Client, scope: str) -> None:
    assert "There is no stream" in read_page(client, f"/tables/{scope}/nothing/rows", 404)
    assert "There is no scope 'nowhere'" in read_page(client, "/scopes/nowhere", 404)
    for name in ("%3Cscript%3Ealert(1)%3C%2Fscript%3E", "%3Cscript%3E", "a%60b", "x" * 3000, "a.b.c", "%00", "_MARKx"):
        for path in (f"/tables/{scope}/{name}", f"/tables/{name}/x/segments", f"/scopes/{name}"):
            answer = client.get(path)
            assert answer.status_code == 404 and "<script" not in answer.text, path
            assert "Traceback" not in answer.text and "PRAVEGA_INTERNAL" not in answer.text
    assert "There is no such page" in read_page(client, "/admin", 404)


def test_nothing_but_reading_by_known_names(client: httpx.Client) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert client.request(method, "/").status_code == 405
    for host in (
        "evil.example",
        "evil.example:80",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "[::1].evil",
        "",
    ):
        assert client.get("/", headers={"host": host}).status_code == 421, host
    for host in ("localhost", "LOCALHOST:9094", "127.0.0.1:1", "[::1]:9094"):
        answer = client.get("/", headers={"host": host})
        assert answer.status_code == 200, host
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'")
        assert "script" not in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
    assert client.head("/").status_code == 200


def test_every_page_links_to_this_server_only(client: httpx.Client, scope: str) -> None:
    for path in ("/", f"/scopes/{scope}", "/queries"):
        page = client.get(path).text
        assert set(re.findall(r"(?:href|src|action)=\"(.)", page)) == {"/", "#"}
        assert "<script" not in page and " style=" not in page and " on" not in re.sub(r">[^<]*<", "><", page)


def test_rights_that_are_missing_are_a_sentence(
    secure_cluster: ClusterInfo, secure_client_config: Callable[..., ClientConfig], secure_scope: str
) -> None:
    with _connect_as(secure_cluster, "admin") as admin:
        admin.create_table(f"`{secure_scope}`.single", pa.schema([("id", pa.int64())])).append(pa.table({"id": [17]}))
    with _connect_as(secure_cluster, "reader") as reader, serving(reader) as client:
        place = f"/tables/{secure_scope}/single"
        assert "17" in read_page(client, f"{place}/rows")
        shown = read_page(client, f"{place}/segments")
        assert "Epochs are not shown" in shown and "READ_UPDATE" in shown
        assert "PRAVEGA_PERMISSION_DENIED" in read_page(client, f"{place}/consumers", 403)
    with _connect_as(secure_cluster, "nobody") as nobody, serving(nobody) as client:
        shown = read_page(client, f"/tables/{secure_scope}/single/rows", 403)
        assert "PRAVEGA_PERMISSION_DENIED" in shown and secure_cluster.users["nobody"] not in shown


def _connect_as(cluster: ClusterInfo, user: str) -> PravegaCatalog:
    return connect(
        controller_uri=cluster.controller_uri,
        schema_registry_uri=cluster.registry_uri,
        security_username=user,
        security_password=cluster.users[user],
        security_trust_store=cluster.ca_file,
    )


def test_a_server_that_is_away_is_a_sentence(cluster: ClusterInfo, catalog: PravegaCatalog, scope: str) -> None:
    away = f"tcp://localhost:{free_port()}"
    with connect(controller_uri=away, retry_timeout="100ms") as nowhere, serving(nowhere) as client:
        for path in ("/", "/scopes/iot", "/tables/iot/sensor", "/queries"):
            shown = read_page(client, path, 503)
            assert "No answer" in shown and "ontroller" in shown
    catalog.create_table(f"`{scope}`.things", pa.schema([("id", pa.int64())]))
    registry = f"http://localhost:{free_port()}"
    half = connect(controller_uri=cluster.controller_uri, schema_registry_uri=registry, retry_timeout="100ms")
    with half, serving(half) as client:
        assert "things PRAVEGA_SERVER_UNAVAILABLE" in read_page(client, f"/scopes/{scope}")
        shown = read_page(client, f"/tables/{scope}/things", 503)
        assert "cannot be loaded PRAVEGA_SERVER_UNAVAILABLE" in shown and "egistry" in shown
        assert "0 0 0 – 1 open" in read_page(client, f"/tables/{scope}/things/segments")


def test_the_command_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRAVEGA_CONTROLLER_URI", raising=False)
    runner = CliRunner()
    shown = runner.invoke(main, ["ui", "--controller-uri", "tcp://me:secret@h:1"]).output
    assert "must not hold credentials" in shown and "secret" not in shown
    assert "'controller-uri' is needed" in runner.invoke(main, ["ui"]).output
    shown = runner.invoke(main, ["ui", "--controller-uri", "tcp://h:1", "--host", "192.0.2.1"]).output
    assert "PRAVEGA_SETUP_FAILED" in shown and "Cannot listen on 192.0.2.1" in shown
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert 'pip install "pyspark-pravega[ui]"' in runner.invoke(main, ["ui", "--controller-uri", "tcp://h:1"]).output
