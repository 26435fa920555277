"""The web pages in a real Chromium: as wide as a phone, in the dark, by keyboard, and with an empty console."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from pyspark_pravega.catalog import connect
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.local.state import ClusterInfo
from tests.front_ends.pages import serving
from tests.spark_servers import free_port

pytestmark = pytest.mark.chromium
TABS = ("columns", "schemas", "rows", "segments", "versions", "transactions", "consumers")
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Chromium:
    """A headless Chromium whose window is as wide as a phone's, driven by the WebDriver protocol."""

    def __init__(self, driver: httpx.Client) -> None:
        self._driver = driver
        chrome = {
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--blink-settings=preferredColorScheme=0"],
            "mobileEmulation": {"deviceMetrics": {"width": 375, "height": 760, "pixelRatio": 1, "mobile": True}},
        }
        wanted = {"browserName": "chrome", "goog:chromeOptions": chrome, "goog:loggingPrefs": {"browser": "ALL"}}
        answer = driver.post("/session", json={"capabilities": {"alwaysMatch": wanted}}).json()["value"]
        self._session = f"/session/{answer['sessionId']}"

    def ask(self, command: str, **arguments: Any) -> Any:
        answer = self._driver.post(f"{self._session}/{command}", json=arguments)
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]

    def run(self, script: str) -> Any:
        return self.ask("execute/sync", script=f"return {script}", args=[])

    def press(self, *keys: str) -> None:
        pressed = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.ask("actions", actions=[{"type": "key", "id": "keyboard", "actions": pressed}])

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.ask("se/log", type="browser")]

    def keep_picture(self, file: Path) -> None:
        picture = self._driver.get(f"{self._session}/screenshot").json()["value"]
        file.write_bytes(base64.b64decode(picture))

    def close(self) -> None:
        self._driver.delete(self._session)


@contextmanager
def driving() -> Iterator[Chromium]:
    program = shutil.which("chromedriver")
    if program is None:
        pytest.skip("there is no chromedriver: apt-get install chromium chromium-driver")
    port = free_port()
    process = subprocess.Popen([program, f"--port={port}"], stdout=subprocess.DEVNULL)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as driver:
            deadline = time.monotonic() + 60
            while True:
                try:
                    if driver.get("/status").json()["value"]["ready"]:
                        break
                except httpx.ConnectError:
                    assert time.monotonic() < deadline and process.poll() is None, "chromedriver does not start"
                    time.sleep(0.1)
            chromium = Chromium(driver)
            yield chromium
            chromium.close()
    finally:
        process.terminate()
        process.wait()


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
        stream = Stream(scope, "things")
        (only,) = pravega.controller.current_segments(stream)
        pravega.controller.scale_stream(stream, [only.segment_id], [(0.0, 0.5), (0.5, 1.0)])
        address = str(client.base_url).rstrip("/")
        paths = ["/", "/queries", f"/scopes/{scope}", *(f"/tables/{scope}/things/{tab}" for tab in TABS)]
        for path in paths:
            chromium.ask("url", url=f"{address}{path}")
            assert chromium.run("document.title").endswith("· Pravega"), path
            assert chromium.run("document.documentElement.scrollWidth") <= 375, path
            assert chromium.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 25, 28)", path
            assert chromium.run("document.scripts.length") == 0 and chromium.complaints() == [], path
        chromium.ask("url", url=f"{address}/tables/{scope}/things/segments")
        assert chromium.run("document.querySelectorAll('main svg[role=img] rect').length") == 3
        chromium.keep_picture(Path(os.environ.get("UI_PICTURE", tmp_path / "narrow.png")))
        chromium.ask("url", url=f"{address}/scopes/{scope}")
        chromium.press("\ue004")  # Tab
        assert chromium.run("document.activeElement.className") == "skip"
        field = chromium.ask("element", using="css selector", value="input[type=search]")[_ELEMENT]
        chromium.ask(f"element/{field}/value", text="hing\ue007")  # Enter
        chromium.ask("element", using="css selector", value="td a")
        assert chromium.run("location.search") == "?q=hing"
        assert chromium.run("document.querySelector('td a').textContent") == "things"
