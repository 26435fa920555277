"""The web pages in a real Chromium: as wide as a phone, in the dark, by keyboard, and with an empty console."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_pravega.catalog import connect
from pyspark_pravega.catalog.running.kept_query import (
    KeptQueries,
    KeptQuery,
    QueryDefinition,
    QueryState,
    QueryStatus,
    read_clock,
)
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.local.state import ClusterInfo
from tests.front_ends.chromium import driving
from tests.front_ends.pages import serving

pytestmark = pytest.mark.chromium
TABS = ("columns", "schemas", "rows", "segments", "versions", "transactions", "consumers", "lake")


def keep_failed_query(pravega: Pravega, cluster: ClusterInfo, scope: str, error: str) -> None:
    """Keep a query of the scope's name that has failed for good."""
    definition = QueryDefinition("SELECT id FROM STREAM t", f"`{scope}`.t", "/c", None, "append", 0, None, (), {})
    failed = QueryStatus(QueryState.FAILED, None, 1, read_clock(), failures=1, last_error=error, failed_at=read_clock())
    conf = {"controller-uri": cluster.controller_uri, "schema-registry-uri": cluster.registry_uri}
    kept = KeptQuery(scope, scope, definition, failed)
    KeptQueries(Catalog(conf, pravega)).change(scope, scope, lambda _: kept)


def test_pages_in_chromium(cluster: ClusterInfo, pravega: Pravega, scope: str, tmp_path: Path) -> None:
    markup = "<script>document.title='taken over'</script><img src=x onerror=\"document.title='taken over'\">"
    with (
        connect(controller_uri=cluster.controller_uri, schema_registry_uri=cluster.registry_uri) as catalog,
        serving(catalog) as client,
        driving() as chromium,
    ):
        columns = pa.schema([pa.field("id", pa.int64(), metadata={"comment": markup}), ("note", pa.string())])
        table = catalog.create_table(f"`{scope}`.things", columns)
        table.append(pa.table({"id": range(30), "note": [markup] * 30}))
        keep_failed_query(pravega, cluster, scope, f"no table <b>{scope}</b> " * 50)
        stream = Stream(scope, "things")
        (only,) = pravega.controller.current_segments(stream)
        pravega.controller.scale_stream(stream, [only.segment_id], [(0.0, 0.5), (0.5, 1.0)])
        address = str(client.base_url).rstrip("/")
        paths = ["/", "/?q=thing", "/queries", "/health", f"/queries/{scope}", f"/scopes/{scope}"]
        paths += [f"/tables/{scope}/things/{tab}" for tab in TABS]
        for path in paths:
            chromium.ask("url", url=f"{address}{path}")
            assert chromium.run("document.title").endswith("· Pravega"), path
            assert chromium.run("document.documentElement.scrollWidth") <= 375, path
            assert chromium.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 25, 28)", path
            assert chromium.run("document.scripts.length") == 0 and chromium.complaints() == [], path
        for path in ("/queries", f"/tables/{scope}/things/rows"):  # long texts off screen make no row high
            chromium.ask("url", url=f"{address}{path}")
            assert chromium.run("Math.max(...[...document.querySelectorAll('tbody tr')].map(r => r.offsetHeight))") < 40
        chromium.click("td details summary")
        assert chromium.run("document.querySelector('td details').innerText").count(markup) == 1
        chromium.ask("url", url=f"{address}/tables/{scope}/things/versions")
        chromium.click("span.short")
        assert (
            len(chromium.run("getSelection().toString()"))
            > 60
            > chromium.run("document.querySelector('.short').offsetWidth") / 4
        )
        chromium.ask("url", url=f"{address}/tables/{scope}/things/segments")
        assert chromium.run("document.querySelectorAll('main svg[role=img] rect').length") == 3
        chromium.keep_picture(Path(os.environ.get("UI_PICTURE", tmp_path / "narrow.png")))
        chromium.ask("url", url=f"{address}/scopes/{scope}")
        chromium.press("\ue004")  # Tab
        assert chromium.run("document.activeElement.className") == "skip"
        chromium.type("input[type=search]", "hing\ue007")  # Enter
        chromium.find("td a")
        assert chromium.run("location.search") == "?q=hing"
        assert chromium.run("document.querySelector('td a').textContent") == "things"
