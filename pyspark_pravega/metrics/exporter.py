"""Shows Prometheus the newest measurement: names the metrics, says what each means, and measures again and again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from pyspark_pravega.errors import PravegaError
from pyspark_pravega.listening import REFUSAL, is_known_host, name_address

from .measurement import Changes, Measurement, StreamReading

Family: TypeAlias = CounterMetricFamily | GaugeMetricFamily

_OF_STREAM = ("scope", "stream")
_OF_CONSUMER = ("scope", "stream", "consumer")
_OF_QUERY = ("query",)

_ALWAYS = {
    "pravega_up": "1 if the last measurement succeeded. 0: no other metric of Pravega is shown.",
    "pravega_measurement_timestamp_seconds": "When the measurement that is shown began, in seconds since 1970.",
    "pravega_measurement_duration_seconds": "How long it took.",
}
_UNREAD = "Streams, scopes or lists that could not be read, by the condition of the error."
_GAUGES_OF_STREAM = {
    "pravega_stream_bytes": "Bytes of all events that still exist.",
    "pravega_stream_segments": "Segments that take events.",
    "pravega_stream_version": "Number of the newest version: the commits of INSERT, append and streaming queries.",
    "pravega_stream_last_commit_timestamp_seconds": "When the newest version was committed, in seconds since 1970.",
    "pravega_stream_commits_waiting": "Transactions in the queue of commits. The first one is being committed.",
    "pravega_stream_commit_age_seconds": "How long this program has seen the same transaction being committed.",
    "pravega_stream_retention_minimum_bytes": "Retention by size: what is kept in any case.",
    "pravega_stream_retention_maximum_bytes": "Retention by size: what is kept at most, read by consumers or not.",
    "pravega_stream_retention_minimum_seconds": "Retention by time: what is kept in any case.",
    "pravega_stream_retention_maximum_seconds": "Retention by time: what is kept at most, read by consumers or not.",
}
_COUNTERS_OF_STREAM = {
    "pravega_stream_appended_bytes": "Bytes appended since this program began to watch the stream.",
    "pravega_stream_committed_events": "Events of all versions; missing if a writer did not say how many it wrote.",
}
_GAUGES_OF_LAKE = {
    "pravega_lake_bytes_behind": "Bytes of the stream that its lake does not have yet.",
    "pravega_lake_seconds_behind": "Age of the oldest version that the lake does not have completely. 0 if it has all; "
    "missing if only other programs write the stream.",
    "pravega_lake_rows": "Rows in the lake's files.",
    "pravega_lake_files": "Files of data in the lake.",
    "pravega_lake_bytes": "Bytes of these files.",
}
_GAUGES_OF_CONSUMER = {
    "pravega_consumer_bytes_behind": "Bytes from the consumer's position to the end of the stream.",
    "pravega_consumer_seconds_behind": "Age of the oldest version that the consumer has not read completely. 0 if it "
    "has read all; missing if only other programs write the stream.",
    "pravega_consumer_bytes_read": "Bytes from the stream's head to the consumer's position, which retention may free.",
    "pravega_consumer_overtaken": "1 if events after the consumer's position were removed.",
}
_GAUGES_OF_QUERY = {
    "pravega_query_rows_per_second": "Rows that the query read in its last micro-batch, per second.",
    "pravega_query_bytes_behind": "Unread bytes of the query's streams, by its last micro-batch.",
    "pravega_query_seconds_behind": "Age of the oldest unread version, by its last micro-batch.",
    "pravega_query_failures": "Failures in a row, since a micro-batch was completed.",
}
_STATE = "1 for the state that the query is in: RUNNING, RETRYING, WAITING, FAILED, FINISHED and others."


def make_families(measurement: Measurement | None, changes: Changes) -> Iterator[Family]:
    """Yield the metrics of a measurement; None for one that has failed."""
    values = {"pravega_up": float(measurement is not None)}
    if measurement is not None:
        values["pravega_measurement_timestamp_seconds"] = measurement.began
        values["pravega_measurement_duration_seconds"] = measurement.seconds
    for name, value in values.items():
        yield GaugeMetricFamily(name, _ALWAYS[name], value=value)
    if measurement is None:
        return
    unread = GaugeMetricFamily("pravega_unread", _UNREAD, labels=("condition",))
    for condition, count in measurement.unread.items():
        unread.add_metric((condition,), count)
    yield unread
    of_streams = {(one.stream.scope, one.stream.name): _describe_stream(one, changes) for one in measurement.streams}
    yield from _fill("stream", _GAUGES_OF_STREAM, _OF_STREAM, of_streams)
    yield from _fill("stream", _COUNTERS_OF_STREAM, _OF_STREAM, of_streams, CounterMetricFamily)
    of_lakes = {(one.stream.scope, one.stream.name): vars(one) for one in measurement.lakes}
    yield from _fill("lake", _GAUGES_OF_LAKE, _OF_STREAM, of_lakes)
    of_consumers = {(one.stream.scope, one.stream.name, one.name): vars(one) for one in measurement.consumers}
    yield from _fill("consumer", _GAUGES_OF_CONSUMER, _OF_CONSUMER, of_consumers)
    of_queries = {(query["name"],): query for query in measurement.queries}
    yield from _fill("query", _GAUGES_OF_QUERY, _OF_QUERY, of_queries)
    states = GaugeMetricFamily("pravega_query_state", _STATE, labels=("query", "state"))
    for query in measurement.queries:
        states.add_metric((query["name"], query["state"]), 1)
    yield states


def _fill(
    prefix: str,
    about: Mapping[str, str],
    labels: tuple[str, ...],
    values: Mapping[Any, Mapping[str, Any]],
    kind: type[Family] = GaugeMetricFamily,
) -> Iterator[Family]:
    """Yield metrics of some things, whose values have the names of the metrics without the prefix."""
    for name, text in about.items():
        family = kind(name, text, labels=labels)
        for key, readings in values.items():
            if (value := readings.get(name.removeprefix(f"pravega_{prefix}_"))) is not None:
                family.add_metric(key, value)
        yield family


def _describe_stream(reading: StreamReading, changes: Changes) -> Mapping[str, float | None]:
    log, retention = reading.log, reading.retention
    values: dict[str, float | None] = {
        "bytes": reading.bytes,
        "segments": reading.open_segments,
        "appended_bytes": changes.appended_bytes(reading.stream),
    }
    if log is not None:
        values["version"] = log.version
        values["commits_waiting"] = len(log.queue)
        values["commit_age_seconds"] = changes.commit_age(reading.stream, time.time())
        if log.version:
            values["last_commit_timestamp_seconds"] = log.timestamp_ms / 1000
            values["committed_events"] = None if log.content is None else log.content.events
    if retention is not None:
        unit, size = ("bytes", 1) if retention.kind == "size" else ("seconds", 1000)
        values[f"retention_minimum_{unit}"] = retention.minimum / size
        if retention.maximum is not None:
            values[f"retention_maximum_{unit}"] = retention.maximum / size
    return values


_log = logging.getLogger(__name__)


class Exporter(Collector):
    """The newest measurement as metrics. Thread-safe: one thread measures, others show."""

    def __init__(self, measure: Callable[[], Measurement]) -> None:
        """Measure nothing yet."""
        self._measure = measure
        self._lock = threading.Lock()
        self._newest: Measurement | None = None
        self._changes = Changes()

    def refresh(self) -> None:
        """Measure once. If a server cannot be reached, log it, and show `pravega_up` as 0."""
        newest = None
        try:
            newest = self._measure()
        except PravegaError as error:
            _log.warning("Nothing was measured: %s", error.for_user())
        with self._lock:
            self._newest = newest
            if newest is not None:
                self._changes.note(newest.streams, newest.began)

    def refresh_every(self, seconds: float, stop: threading.Event) -> None:
        """Measure until `stop` is set, with `seconds` from one beginning to the next, or without a pause."""
        while not stop.is_set():
            began = time.monotonic()
            self.refresh()
            stop.wait(max(0.0, seconds - (time.monotonic() - began)))

    def collect(self) -> Iterable[Family]:
        with self._lock:
            return list(make_families(self._newest, self._changes))


def serve(exporter: Exporter, host: str, port: int, names: Iterable[str] = ()) -> WSGIServer:
    """Show the metrics by HTTP from a thread of its own, to requests for its address, `host` or one of `names`.

    Port 0 is any free one. Raises SetupError.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(exporter)
    with name_address(host, port):
        server, _ = start_http_server(port, host, registry)
    show, hosts = make_wsgi_app(registry), (*names, host)

    def answer(request: dict[str, Any], start: Callable[..., Any]) -> Any:
        if is_known_host(request.get("HTTP_HOST", ""), hosts):
            return show(request, start)
        start("421 Misdirected Request", [("content-type", "text/plain; charset=utf-8")])
        return [REFUSAL.encode()]

    server.set_app(answer)
    return server
