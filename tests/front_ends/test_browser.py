"""The catalog as web pages: what they show, and what they refuse."""

from __future__ import annotations

import re
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html import unescape
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from pyspark_pravega.browser import kept_answers, newest_rows
from pyspark_pravega.browser.kept_answers import KeptAnswers
from pyspark_pravega.catalog import PravegaCatalog, connect
from pyspark_pravega.catalog.running.kept_query import KeptQueries
from pyspark_pravega.client import Pravega, StreamConfiguration
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.consumers.consumer import Consumer
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.commands.cli import main
from pyspark_pravega.doctor.server_checks import check_servers
from pyspark_pravega.local.state import ClusterInfo
from tests.front_ends.pages import serving
from tests.spark_servers import free_port
from tests.streams import PATIENCE

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
    assert f"id bigint {MARKUP}" in shown and f"comment {MARKUP}" in shown and "routing-key id" in shown
    shown = read_page(client, f"{place}/schemas")
    assert "+ size INT" in shown and "+ note STRING" in shown and "~" not in shown
    shown = read_page(client, f"{place}/rows")
    assert "1000 the newest NULL 7" in shown and f"39 {MARKUP} X'FFFF" in shown and len(shown) < 120_000
    times = re.findall(
        r"<tr><td class=\"value\">(\d\d-\d\d \d\d:\d\d:\d\d)</td><td class=\"value\">(\d)</td>",
        client.get(f"{place}/rows").text,
    )
    assert len(times) == 41 and times == sorted(times, key=lambda row: row[0], reverse=True)
    assert [segment for _, segment in times[1:9]] == ["0", "1"] * 4
    picture = client.get(f"{place}/segments").text
    assert len(re.findall(r"<rect class=\"h\d( open)?\" x=", picture)) == 4
    assert "segment 0 of epoch 0, sealed: keys 0 to 0.5" in picture
    shown = read_page(client, f"{place}/segments")
    assert "growth 0 B/s" in shown and "epoch 1" in shown
    shown = read_page(client, f"{place}/versions")
    assert "last hour 2 commits, 41 rows" in shown and re.search(r"2 20\d\d-\S+ \S+ INSERT 1 ", shown)
    assert "No transaction waits" in read_page(client, f"{place}/transactions")
    assert re.search(r"nightly 1\.\d MiB ", read_page(client, f"{place}/consumers"))
    assert "started by CALL" in read_page(client, "/queries") or "Rows/s" in read_page(client, "/queries")


def test_the_page_of_scopes_outlives_one_that_is_dropped(
    client: httpx.Client, pravega: Pravega, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes after its tables were counted, and before their sizes are added up."""
    own, look_at_all = f"own{secrets.token_hex(6)}", KeptAnswers.look_at_all
    pravega.controller.create_scope(own)

    def drop_first(kept: KeptAnswers[object], names: Sequence[str], deadline: float) -> list[object]:
        if list(names) == [own]:
            pravega.controller.delete_scope(own)
        return look_at_all(kept, names, deadline)

    monkeypatch.setattr(kept_answers, "_FRESH_SECONDS", 0)
    monkeypatch.setattr(KeptAnswers, "look_at_all", drop_first)
    assert re.search(rf"{own} 0 (?!0 )", read_page(client, "/")), "without sizes"
    assert own not in read_page(client, "/")


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
    near = f"Did you mean /tables/{scope}/bare/segments?"
    assert near in read_page(client, f"/tables/{scope}/bare/segment", 404)


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


@pytest.mark.parametrize("own", ["id", "_commit_version", "_commit_timestamp"])
def test_rows_are_ordered_by_their_commits(
    client: httpx.Client, catalog: PravegaCatalog, scope: str, own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table may have columns of its own with the names that commits have; of old commits the page knows nothing."""
    monkeypatch.setattr(newest_rows, "_VERSIONS", 3)
    table = catalog.create_table(
        f"`{scope}`.own", pa.schema([(own, pa.int64())]), properties={"scaling.min-segments": "4", "routing-key": own}
    )
    for number in range(1, 6):
        table.append(pa.table({own: range(number * 100_000, number * 100_000 + 9)}))
    page = client.get(f"/tables/{scope}/own/rows").text
    commits = [int(value) // 100_000 for value in re.findall(r'<td class="number">(\d{6})</td>', page)]
    assert sorted(commits) == [4] * 9 + [5] * 9
    assert (commits == [5] * 9 + [4] * 9) is (own != "_commit_version")
    assert ("The newest first" in page) is (own != "_commit_version")
    times = re.findall(r"<td[^>]*>(\d\d-\d\d \d\d:\d\d:\d\d)</td>", page)
    expected = [f"{version.time:%m-%d %H:%M:%S}" for version in table.history(newest=2)] * 9
    assert Counter(times) == Counter([] if own == "_commit_timestamp" else expected)
    page = client.get(unescape("".join(re.findall(r'href="([^"]+)">Older rows', page)))).text
    assert len(re.findall(r'<td class="number">([123]\d{5})</td>', page)) == 27
    assert "The newest first" not in page


def test_rows_are_filtered_and_read_further_back(client: httpx.Client, catalog: PravegaCatalog, scope: str) -> None:
    columns = pa.schema([("id", pa.int64()), ("text", pa.string()), ("of", pa.struct([("kind", pa.string())]))])
    table = catalog.create_table(f"`{scope}`.many", columns, properties={"scaling.min-segments": "3"})
    for number in range(4):
        ids = range(number * 30, number * 30 + 30)
        rows = {"id": ids, "text": ["x" * 50_000] * 30, "of": [{"kind": f"Kind{one % 7}"} for one in ids]}
        table.append(pa.table(rows, schema=columns))
    path, seen = f"/tables/{scope}/many/rows", []
    while path:
        page = client.get(path).text
        seen.append([int(one) for one in re.findall(r'<td class="number">(\d+)</td><td class="value"><details>', page)])
        path = unescape("".join(re.findall(r'href="([^"]+)">Older rows', page)))
    assert [len(ids) for ids in seen] == [50, 10, 50, 10]
    assert [{one // 30 for one in ids} for ids in seen] == [{3, 2}, {2}, {1, 0}, {0}]
    assert sorted(one for ids in seen for one in ids) == list(range(120))
    path, found = f"/tables/{scope}/many/rows?column=of&text=kind3", []
    while path:
        page = client.get(path).text
        found += re.findall(r"Kind(\d)", unescape(page))
        path = unescape("".join(re.findall(r'href="([^"]+)">Older rows with this text', page)))
    assert found == ["3"] * 17
    page = client.get(f"/tables/{scope}/many/rows?column=id&text=91").text
    assert page.count("x" * 49_000) == 1
    shown = read_page(client, f"/tables/{scope}/many/rows?column=of&text={MARKUP}&until=x&skip=-1")
    assert f"None of the rows that were read has “{MARKUP}” in of" in shown


def test_tables_are_found_in_all_scopes(client: httpx.Client, catalog: PravegaCatalog, scope: str) -> None:
    table = catalog.create_table(f"`{scope}`.unlike_others", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    shown = read_page(client, "/?q=LIKE_OTHER")
    assert "No scope has “LIKE_OTHER”" in shown and "1 table with “LIKE_OTHER” in the name" in shown
    assert f'href="/tables/{scope.replace("-", "_")}/unlike_others"' in client.get("/?q=like_other").text
    assert f"“{MARKUP}”" in read_page(client, f"/?q={MARKUP}")
    size = catalog.load_table(f"`{scope}`.unlike_others").size().bytes
    assert f"tables 1 open segments 1 size {size} B" in read_page(client, f"/scopes/{scope}")
    assert re.search(rf"{scope.replace('-', '_')} 1 1 {size} B", read_page(client, f"/?q={scope.replace('-', '_')}"))
    page = client.get(f"/tables/{scope}/unlike_other").text
    assert f'href="/tables/{scope}/unlike_others"' in page.replace("_", "-").replace("unlike-others", "unlike_others")
    assert 'href="//' not in client.get("//evil.example/querie").text


def test_streaming_queries_are_known_by_what_they_leave(
    client: httpx.Client,
    catalog: PravegaCatalog,
    spark: SparkSession,
    scope: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of any program by the ledgers of tables, those of SQL by what is kept of them."""
    # Otherwise the pages would ask a scope that had no query again after 20 s.
    list_all = KeptQueries.all
    monkeypatch.setattr(KeptQueries, "all", lambda kept, age=1.0: list_all(kept, age))
    namespace = f"pravega.`{scope}`"
    spark.sql(f"CREATE TABLE {namespace}.numbers (id BIGINT) USING pravega")
    spark.sql(f"CREATE TABLE {namespace}.copies (id BIGINT) USING pravega")
    spark.sql(f"CREATE TABLE {namespace}.doubled (twice BIGINT) USING pravega")
    spark.sql(f"INSERT INTO {namespace}.numbers SELECT id FROM range(7)")
    assert "None is known." in read_page(client, f"/tables/{scope}/copies/consumers")
    writing = spark.readStream.table(f"{namespace}.numbers").writeStream.option(
        "checkpointLocation", str(tmp_path / "a")
    )
    query = writing.trigger(availableNow=True).toTable(f"{namespace}.copies")
    query.awaitTermination()
    shown = read_page(client, "/queries")
    assert re.search(rf"query {query.id} \S*copies 0 7 20\d\d", shown)
    assert f"query {query.id} wrote 7 rows in batch 0" in read_page(client, f"/tables/{scope}/copies/consumers")
    [writer] = catalog.writers(f"`{scope}`")
    assert (writer.writer, writer.batch, writer.rows) == (f"query {query.id}", 0, 7)

    name, text = f"doubled-{scope}", f"SELECT 2 * id AS twice FROM STREAM {namespace}.numbers"
    spark.sql(
        f"CALL pravega.system.start_query(name => '{name}', query => '{text}', into => '`{scope}`.doubled', "
        f"checkpoint => '{tmp_path / 'b'}')"
    )
    try:
        deadline = time.monotonic() + PATIENCE
        while "rows/s out" not in (shown := client.get(f"/queries/{name}").text):
            assert time.monotonic() < deadline, shown
            time.sleep(0.2)
        shown = read_page(client, f"/queries/{name}")
        assert text in shown and "state RUNNING" in shown and f"checkpoint {tmp_path / 'b'}" in shown
        page = client.get(f"/queries/{name}").text
        assert set(re.findall(r'href="/tables/[^/]+/(\w+)"', page)) == {"numbers", "doubled"}
        [row] = [row for row in catalog.queries().to_pylist() if row["name"] == name]
        # What is known of a scope is kept for some seconds.
        while (page := client.get("/queries").text).count(f'href="/queries/{name}"') < 2:
            assert time.monotonic() < deadline, page
            time.sleep(0.2)
        assert row["query_id"] not in page
        while "rows/s in: " not in (shown := read_page(client, f"/queries/{name}")):
            assert time.monotonic() < deadline, shown
            time.sleep(0.2)
        assert f"{name} reads this table, RUNNING" in read_page(client, f"/tables/{scope}/numbers/consumers")
        assert f"{name} writes this table, RUNNING" in read_page(client, f"/tables/{scope}/doubled/consumers")
    finally:
        spark.sql(f"CALL pravega.system.stop_query(name => '{name}')")
    read_page(client, f"/queries/{name}", 404)


def test_rates_are_drawn_though_nobody_looks(
    catalog: PravegaCatalog, pravega: Pravega, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark_pravega.browser import application, histories

    monkeypatch.setattr(application, "SECONDS_OF_WATCH", 0.05)
    monkeypatch.setattr(histories, "_CLOSEST", 0.01)
    retention = {"retention.type": "size", "retention.minimum": "1g"}
    table = catalog.create_table(f"`{scope}`.grown", pa.schema([("id", pa.int64())]), properties=retention)
    stream = Stream(scope, "grown")
    Consumer.register(pravega, stream, "daily", pravega.controller.head(stream))
    with serving(catalog) as client:
        assert "polyline" not in client.get(f"/tables/{scope}/grown/segments").text
        client.get(f"/tables/{scope}/grown/consumers")
        table.append(pa.table({"id": range(100)}))
        deadline = time.monotonic() + PATIENCE
        while not re.search(r"bytes/s: \S+ \w+, at most [1-9]", read_page(client, f"/tables/{scope}/grown/segments")):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        while "daily, bytes behind: 1." not in (shown := read_page(client, f"/tables/{scope}/grown/consumers")):
            assert time.monotonic() < deadline, shown
            time.sleep(0.1)
        [points] = re.findall(r'points="([^"]+)"', client.get(f"/tables/{scope}/grown/consumers").text)
        assert points.startswith("0.0,40.0 ") and points.endswith("240.0,0.0")


def test_health_is_what_the_servers_answer(cluster: ClusterInfo, catalog: PravegaCatalog) -> None:
    settings = {"controller-uri": cluster.controller_uri, "schema-registry-uri": cluster.registry_uri}
    with serving(catalog, check=lambda: check_servers(settings, {})) as client:
        shown = read_page(client, "/health")
        assert f"good Controller: {cluster.controller_uri} answers" in shown and "fails" not in shown
        assert "good Schema registry" in shown and "good Segment store" in shown
    away = {**settings, "schema-registry-uri": f"http://localhost:{free_port()}"}
    with serving(catalog, check=lambda: check_servers(away, {})) as client:
        deadline = time.monotonic() + PATIENCE
        while "fails Schema registry" not in (shown := read_page(client, "/health")):
            assert time.monotonic() < deadline, shown
        assert "Is the server running" in shown


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
    # A slash within a name does not make it a page of another table.
    assert "a%2Fcolumns" in read_page(client, f"/tables/{scope}/a%2Fcolumns", 404)


def test_a_page_reloads_until_it_is_stopped(client: httpx.Client, scope: str) -> None:
    path = f"/scopes/{scope}?q=a"
    assert "http-equiv" not in client.get(path).text
    [again] = re.findall(r'<a href="([^"]+)">reload every 5 s</a>', client.get(path).text)
    shown = client.get(unescape(again)).text
    assert '<meta http-equiv="refresh" content="5">' in shown and 'value="a"' in shown
    [stop] = re.findall(r'<a href="([^"]+)">stop reloading</a>', shown)
    assert unescape(stop) == path
    assert "http-equiv" not in client.get(f"{path}&reload=0.01").text


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
