"""docs/python.md as a program, and `pyspark-pravega show` beside it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from pyspark_pravega.catalog import PravegaCatalog, connect
from pyspark_pravega.client import Pravega
from pyspark_pravega.client.consumers.consumer import Consumer
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.commands.cli import main
from pyspark_pravega.local.state import ClusterInfo

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_the_page_says_what_happens(
    cluster: ClusterInfo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRAVEGA_CONTROLLER_URI", cluster.controller_uri)
    monkeypatch.setenv("PRAVEGA_SCHEMA_REGISTRY_URI", str(cluster.registry_uri))
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```(python|text)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    shown = 0
    for language, text in blocks:
        if language == "python":
            exec(text, names)
        else:
            assert capsys.readouterr().out == text
            shown += 1
    assert shown >= 6


Show = Callable[..., Result]


@pytest.fixture
def show(cluster: ClusterInfo) -> Show:
    """The command on the servers of the tests."""
    environment = {
        "PRAVEGA_CONTROLLER_URI": cluster.controller_uri,
        "PRAVEGA_SCHEMA_REGISTRY_URI": str(cluster.registry_uri),
    }
    return lambda *arguments: CliRunner(env=environment).invoke(main, ["show", *arguments])


@pytest.fixture
def catalog(cluster: ClusterInfo) -> Iterator[PravegaCatalog]:
    """The catalog of the same servers."""
    with connect(controller_uri=cluster.controller_uri, schema_registry_uri=cluster.registry_uri) as connected:
        yield connected


def test_show(show: Show, catalog: PravegaCatalog, pravega: Pravega, scope: str) -> None:
    number = pa.field("id", pa.int64(), metadata={"comment": "which"})
    columns = pa.schema([number, ("text", pa.string()), ("b", pa.binary())])
    properties = {"scaling.min-segments": "2", "retention.type": "size", "retention.minimum": "1g", "routing-key": "id"}
    table = catalog.create_table(f"`{scope}`.things", columns, properties=properties)
    table.append(pa.table({"id": range(100), "text": ["[red]\x1b[1m\n"] * 100, "b": [b"\xff"] * 100}))
    name = f"`{scope}`.things"
    Consumer.register(pravega, Stream(scope, "things"), "nightly", pravega.controller.head(Stream(scope, "things")))

    (row,) = json.loads(show("tables", f"`{scope}`", "--json").output)
    assert row == {"table": name, "segments": 2, "bytes": table.size().bytes, "format": "avro",
                   "retention": "size 1g", "error": None}  # fmt: skip
    heading, line = show("tables", f"`{scope}`").output.splitlines()
    assert heading.split() == ["table", "segments", "size", "format", "retention"]
    assert line.split() == [name, "2", "3.0", "KiB", "avro", "size", "1g"]

    found = json.loads(show("schema", name, "--json").output)
    assert found["columns"][0] == {"column": "id", "type": "bigint", "nullable": True, "comment": "which"}
    assert found["properties"]["routing-key"] == "id"
    assert [version["columns"] for version in found["versions"]] == ["id:bigint,text:string,b:binary"]
    assert "id      bigint  True      which" in show("schema", name).output

    pravega.key_value_table(scope, "states").create(1, 4)
    assert json.loads(show("schema", f"`{scope}`.states", "--json").output)["columns"][0]["column"] == "key"

    rows = json.loads(show("head", name, "-n", "3", "--json").output)
    assert len(rows) == 3 and rows[0]["b"] == "/w==" and rows[0]["text"] == "[red]\x1b[1m\n"
    # What a terminal would obey is shown, and not obeyed.
    heading, line = show("head", name, "-n", "1", "-c", "text", "-c", "b", "-c", "_offset").output.splitlines()
    assert heading.split() == ["text", "b", "_offset"]
    assert line.split() == ["[red]\\x1b[1m\\n", "X'FF'", "0"]

    (commit,) = json.loads(show("history", name, "--json").output)
    assert (commit["version"], commit["operation"], commit["rows"]) == (1, "INSERT", 100)
    assert commit["position"] == table.history()[0].position
    assert "INSERT" in show("history", name).output

    segments = json.loads(show("metadata", name, "segments", "--json").output)
    assert [(segment["number"], segment["sealed"]) for segment in segments] == [(0, False), (1, False)]
    assert "INSERT" in show("metadata", name, "history").output
    assert show("metadata", name, "tags").output == f"There are no tags of {name}.\n"

    (behind,) = json.loads(show("lag", name, "--json").output)
    assert behind["consumer"] == f"`{scope}`.nightly" and behind["bytes_behind"] == table.size().bytes
    assert "3.0 KiB" in show("lag", name).output


def test_rows_that_come_are_shown_until_ctrl_c(catalog: PravegaCatalog, cluster: ClusterInfo, scope: str) -> None:
    table = catalog.create_table(f"`{scope}`.things", pa.schema([("id", pa.int64()), ("text", pa.string())]))
    table.append(pa.table({"id": range(2), "text": ["a", "b"]}))
    command = [sys.executable, "-m", "pyspark_pravega", "show", "follow", f"`{scope}`.things", "--json"]
    more = ["--from-start", "-c", "id", "-c", "_offset", "-o", "mode=failfast"]
    environment = {**os.environ, "PRAVEGA_CONTROLLER_URI": cluster.controller_uri,
                   "PRAVEGA_SCHEMA_REGISTRY_URI": str(cluster.registry_uri)}  # fmt: skip
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, *more], env=environment, **pipes) as following:
        assert following.stdout is not None and following.stderr is not None
        assert json.loads(following.stdout.readline()) == {"id": 0, "_offset": 0}
        assert json.loads(following.stdout.readline())["id"] == 1
        table.append(pa.table({"id": [2], "text": ["c"]}))
        assert json.loads(following.stdout.readline())["id"] == 2
        following.send_signal(signal.SIGINT)
        assert (following.wait(60), following.stderr.read()) == (130, "Interrupted.\n")


def test_mistyped_names_are_asked_about(show: Show, catalog: PravegaCatalog, scope: str) -> None:
    catalog.create_table(f"`{scope}`.sensor", pa.schema([("id", pa.int64()), ("location", pa.string())]))
    meant = f"Did you mean `{scope}`.sensor?\n"
    for command in ("head", "schema", "history", "lag"):
        found = show(command, f"`{scope}`.senor")
        assert found.exit_code == 1 and found.output.endswith(f"There is no stream 'senor' in scope '{scope}'. {meant}")
    assert show("metadata", f"`{scope}`.Sensr", "segments").output.endswith(meant)
    assert "There is no metadata table segmnts. Did you mean segments?" in (
        show("metadata", f"`{scope}`.sensor", "segmnts").output
    )
    assert "There is no column loction. Did you mean location?" in (
        show("head", f"`{scope}`.sensor", "-c", "loction").output
    )
    unknown = show("head", f"`{scope}s`.sensor").output
    assert f"There is no namespace `{scope}s`. Did you mean " in unknown and unknown.endswith(".sensor?\n")
    assert "Did you mean" in show("tables", f"`{scope}s`").output
    nothing = show("head", f"`{scope}`.zzz").output
    assert nothing.endswith(f"There is no stream 'zzz' in scope '{scope}'.\n")


def test_a_table_that_cannot_be_read_hides_no_other(
    show: Show, catalog: PravegaCatalog, pravega: Pravega, scope: str
) -> None:
    assert show("tables", f"`{scope}`").output == "There are no tables.\n"
    for name in ("broken", "whole"):
        catalog.create_table(f"`{scope}`.{name}", pa.schema([("id", pa.int64())]))
    pravega.registry(scope).delete_group("broken")
    broken, whole = json.loads(show("tables", f"`{scope}`", "--json").output)
    assert broken["error"] == "PRAVEGA_SCHEMA_NOT_FOUND" and whole["format"] == "avro"
    assert "PRAVEGA_SCHEMA_NOT_FOUND" in show("tables", f"`{scope}`").output
    assert "retention" not in (found := show("metadata", f"`{scope}`.broken", "properties").output) and "avro" in found
    assert show("history", f"`{scope}`.whole").output.startswith("Nothing was committed")
    assert show("lag", f"`{scope}`.whole").output == f"There are no consumers of `{scope}`.whole.\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("head", "nothing.here"), "[PRAVEGA_STREAM_NOT_FOUND]"),
        (("tables", "nothing"), "[PRAVEGA_SCOPE_NOT_FOUND]"),
        (("metadata", "nothing.here", "tags"), "[PRAVEGA_STREAM_NOT_FOUND]"),
        (("metadata", "nothing.here", "tag"), "A table has history, segments"),
        (("head", "a..b"), "'a..b' is not a name"),
        (("head", "a.b", "-o", "mode"), "write KEY=VALUE"),
        (("head", "a.b", "-n", "0"), "0 is not in the range"),
        (("schema", "a.b", "--controller-uri", "tcp://me:secret@h:1"), "must not hold credentials"),
    ],
)
def test_mistakes_are_one_message(show: Show, arguments: tuple[str, ...], message: str) -> None:
    result = show(*arguments)
    assert result.exit_code != 0 and message in result.output
    assert "Traceback" not in result.output and "secret" not in result.output
