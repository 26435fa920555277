"""Metrics for Prometheus: what they say of real streams, and that dashboard and alerts ask for metrics that exist."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner

from pyspark_pravega.catalog import connect as connect_catalog
from pyspark_pravega.catalog.storage.catalogs import Catalog
from pyspark_pravega.client import Pravega, StreamConfiguration, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.consumers.consumer import Consumer
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.client.transaction import Transaction
from pyspark_pravega.commands.cli import main
from pyspark_pravega.datasource.commit_log.commit_log import CommitLog
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from pyspark_pravega.errors import ServerUnavailableError
from pyspark_pravega.local.state import ClusterInfo
from tests.spark_servers import free_port

pytest.importorskip("prometheus_client", reason="the extra 'metrics' is not installed: make setup")
from prometheus_client.parser import text_string_to_metric_families

from pyspark_pravega.metrics.exporter import Exporter, serve
from pyspark_pravega.metrics.measurement import Measurement, measure

MONITORING = Path(__file__).resolve().parents[2] / "examples" / "monitoring"


class Scraped:
    """The metrics of an exporter, read by HTTP as Prometheus does."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        self._server = serve(exporter, "127.0.0.1", 0)

    def read(self) -> dict[str, dict[tuple[str, ...], float]]:
        """Measure, and return the values by metric and by the values of labels, except those of scope and stream."""
        self._exporter.refresh()
        text = httpx.get(f"http://127.0.0.1:{self._server.server_port}/metrics").text
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(text):
            values = found.setdefault(family.name, {})
            for sample in family.samples:
                labels = [text for name, text in sample.labels.items() if name not in ("scope", "consumer")]
                values[tuple(labels)] = sample.value
        return found

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def read_once(measuring: Callable[[], Measurement]) -> dict[str, dict[tuple[str, ...], float]]:
    """The metrics of one measurement."""
    scraped = Scraped(Exporter(measuring))
    try:
        return scraped.read()
    finally:
        scraped.close()


@pytest.fixture
def scraped(pravega: Pravega, scope: str) -> Iterator[Scraped]:
    """The metrics of a scope of its own."""
    catalog = Catalog({}, pravega)
    one = Scraped(Exporter(lambda: measure(catalog, [scope])))
    yield one
    one.close()


def test_it_answers_to_known_names_only() -> None:
    """A page of another site could make its own name lead here."""

    def measure_nothing() -> Measurement:
        raise ServerUnavailableError("there is no cluster")

    server = serve(Exporter(measure_nothing), "127.0.0.1", 0, ["metrics.example"])
    try:
        for host, status in (
            ("evil.example", 421),
            ("127.0.0.1.evil.example", 421),
            ("", 421),
            ("metrics.example", 200),
            ("LOCALHOST:9095", 200),
            ("[::1]:9095", 200),
        ):
            answer = httpx.get(f"http://127.0.0.1:{server.server_port}/metrics", headers={"host": host})
            assert (answer.status_code, "pravega_up" in answer.text) == (status, status == 200), host
    finally:
        server.shutdown()
        server.server_close()


def test_streams_and_consumers(scraped: Scraped, cluster: ClusterInfo, pravega: Pravega, scope: str) -> None:
    stream, rows = Stream(scope, "things"), pa.table({"id": range(100)})
    properties = {"retention.type": "size", "retention.minimum": "1k", "retention.maximum": "1m"}
    with connect_catalog(controller_uri=cluster.controller_uri, schema_registry_uri=cluster.registry_uri) as catalog:
        table = catalog.create_table(f"`{scope}`.things", pa.schema([("id", pa.int64())]), properties=properties)
        table.append(rows)
        consumer = Consumer.register(pravega, stream, "nightly", pravega.controller.head(stream))
        before = scraped.read()
        size = table.size().bytes
        assert before["pravega_up"] == {(): 1} and not before["pravega_unread"]
        assert before["pravega_stream_bytes"] == {("things",): size}
        assert before["pravega_stream_segments"] == before["pravega_stream_version"] == {("things",): 1}
        assert before["pravega_stream_committed_events"] == {("things",): 100}
        assert before["pravega_stream_appended_bytes"] == {("things",): 0}
        assert before["pravega_stream_retention_minimum_bytes"] == {("things",): 1024}
        assert before["pravega_stream_retention_maximum_bytes"] == {("things",): 1024**2}
        assert before["pravega_consumer_bytes_behind"] == {("things",): size}
        assert before["pravega_consumer_bytes_read"] == before["pravega_consumer_overtaken"] == {("things",): 0}
        assert before["pravega_consumer_seconds_behind"]["things",] > 0

        consumer.move(measure_tail(pravega, stream))
        middle = scraped.read()
        assert middle["pravega_consumer_bytes_behind"] == middle["pravega_consumer_seconds_behind"] == {("things",): 0}
        assert middle["pravega_consumer_bytes_read"] == {("things",): size}
        table.append(rows)
        table.append(rows)
        after = scraped.read()
    assert after["pravega_stream_appended_bytes"] == after["pravega_consumer_bytes_behind"] == {("things",): 2 * size}
    assert after["pravega_stream_version"] == {("things",): 3}
    second = CommitLog(pravega, stream).versions(2, 2)[0].timestamp / 1_000_000
    age = after["pravega_measurement_timestamp_seconds"][()] - second
    assert after["pravega_consumer_seconds_behind"]["things",] >= age

    pravega.controller.truncate_stream(measure_tail(pravega, stream))
    assert scraped.read()["pravega_consumer_overtaken"] == {("things",): 1}


def test_a_commit_that_is_stuck(scraped: Scraped, cluster: ClusterInfo, pravega: Pravega, scope: str) -> None:
    with connect_catalog(controller_uri=cluster.controller_uri, schema_registry_uri=cluster.registry_uri) as catalog:
        table = catalog.create_table(f"`{scope}`.things", pa.schema([("id", pa.int64())]))
        table.append(pa.table({"id": [1]}))
    stream = Stream(scope, "things")
    assert scraped.read()["pravega_stream_commit_age_seconds"] == {("things",): 0}
    transaction = Transaction.begin(pravega.controller, stream, 60_000)
    CommitLog(pravega, stream).enter(transaction.id, rows=1, operation="INSERT")
    first, second = scraped.read(), scraped.read()
    assert first["pravega_stream_commits_waiting"] == second["pravega_stream_commits_waiting"] == {("things",): 1}
    began = [found["pravega_measurement_timestamp_seconds"][()] for found in (first, second)]
    assert second["pravega_stream_commit_age_seconds"]["things",] >= began[1] - began[0] > 0
    CommitLog(pravega, stream).withdraw(transaction.id)
    assert scraped.read()["pravega_stream_commit_age_seconds"] == {("things",): 0}


def test_what_may_not_be_read_is_counted(secure_client_config: Callable[..., ClientConfig], secure_scope: str) -> None:
    with connect(secure_client_config()) as admin:
        catalog = Catalog({}, admin)
        admin.controller.create_stream(Stream(secure_scope, "things"), StreamConfiguration())
        assert not measure(catalog, [secure_scope]).unread
    for user, seen, unread in (("reader", {("things",): 0}, 0), ("nobody", {}, 1)):
        with connect(secure_client_config(user)) as limited:
            found = read_once(partial(measure, Catalog({}, limited), [secure_scope]))
        assert found["pravega_up"] == {(): 1} and found["pravega_stream_bytes"] == seen
        assert len(found["pravega_unread"]) == unread, user


def test_servers_that_are_away() -> None:
    config = ClientConfig(controller_uri=f"tcp://localhost:{free_port()}", retry_timeout=0.1)
    with connect(config) as nowhere:
        assert read_once(partial(measure, Catalog({}, nowhere), [])) == {"pravega_up": {(): 0}}


def find_expressions(value: Any) -> Iterator[str]:
    """The expressions of a dashboard or of rules."""
    if isinstance(value, dict):
        if isinstance(value.get("expr"), str):
            yield value["expr"]
        if isinstance(value.get("definition"), str):
            yield value["definition"]
        for item in value.values():
            yield from find_expressions(item)
    elif isinstance(value, list):
        for item in value:
            yield from find_expressions(item)


DASHBOARD = json.loads((MONITORING / "grafana-dashboard.json").read_text())
RULES = yaml.safe_load((MONITORING / "alerts.yaml").read_text())


@pytest.mark.parametrize(("file", "least"), [(DASHBOARD, 20), (RULES, 11)], ids=["dashboard", "alerts"])
def test_expressions_ask_for_metrics_that_exist(file: Any, least: int, scraped: Scraped) -> None:
    scraped.read()
    text = httpx.get(f"http://127.0.0.1:{scraped._server.server_port}/metrics").text
    known = set(re.findall(r"^# HELP (\S+) ", text, re.MULTILINE))
    expressions = list(find_expressions(file))
    assert len(expressions) >= least
    named = {name for expression in expressions for name in re.findall(r"\bpravega_\w+", expression)}
    assert named <= known and len(named) >= 10
    parser = pytest.importorskip("promql_parser", reason="the parser of PromQL is not installed: make setup")
    for expression in expressions:
        if not expression.startswith("label_values("):  # Grafana's own
            parser.parse(expression.replace("$__rate_interval", "2m"))


def test_the_dashboard_has_what_grafana_needs() -> None:
    assert {"title", "uid", "schemaVersion", "panels", "templating", "time"} <= DASHBOARD.keys()
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places: set[tuple[int, int]] = set()
    for panel in panels:
        grid = panel["gridPos"]
        covers = {(grid["x"] + x, grid["y"] + y) for x in range(grid["w"]) for y in range(grid["h"])}
        assert not covers & places and grid["x"] + grid["w"] <= 24, panel["title"]
        places |= covers
        if panel["type"] != "row":
            assert panel["description"] and panel["fieldConfig"]["defaults"]["unit"], panel["title"]
            assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])


def test_the_alerts_have_what_prometheus_needs() -> None:
    rules = [rule for group in RULES["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}, rule
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}
    assert yaml.safe_load((MONITORING / "prometheus.yaml").read_text())["rule_files"] == ["alerts.yaml"]


@pytest.mark.parametrize(("command", "path", "shows"), [("metrics", "/metrics", "pravega_up"), ("ui", "/", "Scopes")])
def test_the_command_serves_until_it_is_interrupted(cluster: ClusterInfo, command: str, path: str, shows: str) -> None:
    arguments = [command, "--port", "0", "--controller-uri", cluster.controller_uri]
    program = [sys.executable, "-m", "pyspark_pravega", *arguments]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        address = re.match(r"http://127\.0\.0\.1:\d+", said)
        assert address is not None and cluster.controller_uri in said
        assert shows in httpx.get(f"{address[0]}{path}", timeout=60).text
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


def test_the_command_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRAVEGA_CONTROLLER_URI", raising=False)
    runner = CliRunner()
    shown = runner.invoke(main, ["metrics", "--controller-uri", "tcp://me:secret@h:1"]).output
    assert "must not hold credentials" in shown and "secret" not in shown
    assert "'controller-uri' is needed" in runner.invoke(main, ["metrics"]).output
    assert "Invalid value for '--interval'" in runner.invoke(main, ["metrics", "--interval", "0"]).output
    shown = runner.invoke(main, ["metrics", "--controller-uri", "tcp://h:1", "--host", "192.0.2.1"]).output
    assert "PRAVEGA_SETUP_FAILED" in shown and "Cannot listen on 192.0.2.1" in shown
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    shown = runner.invoke(main, ["metrics", "--controller-uri", "tcp://h:1"]).output
    assert 'pip install "pyspark-pravega[metrics]"' in shown
