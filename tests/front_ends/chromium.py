"""A headless Chromium, driven by the WebDriver protocol."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.spark_servers import free_port

PHONE = 375
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Chromium:
    """A headless Chromium in the dark, whose window has a width in pixels."""

    def __init__(self, driver: httpx.Client, width: int) -> None:
        self._driver = driver
        chrome = {
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--blink-settings=preferredColorScheme=0"],
            "mobileEmulation": {
                "deviceMetrics": {"width": width, "height": 760, "pixelRatio": 1, "mobile": width == PHONE}
            },
        }
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": chrome,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
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

    def requests(self) -> list[str]:
        """Return what was requested since the last call, by whatever part of a page."""
        messages = [json.loads(entry["message"])["message"] for entry in self.ask("se/log", type="performance")]
        sent = [each["params"] for each in messages if each["method"] == "Network.requestWillBeSent"]
        return [each["request"]["url"] for each in sent]

    def wait_for(self, script: str) -> Any:
        """Run a script until it returns something true, and return that."""
        deadline = time.monotonic() + 60
        while not (found := self.run(script)):
            assert time.monotonic() < deadline, script
            time.sleep(0.05)
        return found

    def find(self, selector: str) -> str:
        """Return the first element of a page by a selector."""
        element: str = self.ask("element", using="css selector", value=selector)[_ELEMENT]
        return element

    def click(self, selector: str) -> None:
        self.ask(f"element/{self.find(selector)}/click")

    def type(self, selector: str, text: str) -> None:
        self.ask(f"element/{self.find(selector)}/value", text=text)

    def keep_picture(self, file: Path) -> None:
        picture = self._driver.get(f"{self._session}/screenshot").json()["value"]
        file.write_bytes(base64.b64decode(picture))

    def close(self) -> None:
        self._driver.delete(self._session)


@contextmanager
def driving(width: int = PHONE) -> Iterator[Chromium]:
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
            chromium = Chromium(driver, width)
            yield chromium
            chromium.close()
    finally:
        process.terminate()
        process.wait()
