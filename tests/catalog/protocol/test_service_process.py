"""The service as a process: what ends it and what does not, and that every request is answered."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.serializers import CPickleSerializer
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pyspark_pravega.client import Pravega, connect
from pyspark_pravega.client.config import ClientConfig
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.datasource.dispatch.dispatch_task import DispatchMessage
from pyspark_pravega.datasource.insert.reports import InsertMessage
from pyspark_pravega.datasource.positions.snapshot import measure_tail
from pyspark_pravega.local.state import ClusterInfo
from tests.datasource.insert.test_atomicity import wait_until

NOBODY = {"controller-uri": "tcp://localhost:1", "retry-timeout": "10min", "catalog-name": "dead", "scope": "mine"}
"""A catalog whose controller does not answer: nothing listens at this address."""


class Service:
    """A service as the adapter starts it."""

    def __init__(self, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pyspark_pravega.catalog.service"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment},
        )

    def write(self, line: str) -> None:
        """Write a line to its pipe."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def send(self, number: int, operation: str, conf: Mapping[str, str], **arguments: Any) -> None:
        """Begin a call."""
        request = {"operation": operation, "conf": list(conf.items()), "arguments": arguments}
        self.write(f"{number} {json.dumps(request)}")

    def receive(self) -> tuple[int, Any]:
        """The next answer: the call's number and the answer's JSON."""
        assert self.process.stdout is not None
        number, _, reply = self.process.stdout.readline().partition(b" ")
        return int(number), json.loads(reply)

    def ask(self, number: int, operation: str, conf: Mapping[str, str], **arguments: Any) -> Any:
        """The answer to a call while there is no other."""
        self.send(number, operation, conf, **arguments)
        answered, reply = self.receive()
        assert answered == number
        return reply

    def end(self) -> tuple[int, str]:
        """Close its stdin, as the end of the driver does; return its exit code and what it said."""
        said = self.process.communicate()[1].decode()
        return self.process.returncode, said


@pytest.fixture
def service() -> Iterator[Service]:
    started = Service()
    with started.process:
        yield started
        started.process.kill()


def test_the_interrupt_of_a_terminal_does_not_end_it(service: Service) -> None:
    """Ctrl-C in a SQL shell is sent to every process of the shell."""
    assert service.ask(1, "default_namespace", NOBODY) == {"result": ["mine"]}
    for number in range(2, 5):
        service.process.send_signal(signal.SIGINT)
        assert service.ask(number, "default_namespace", NOBODY) == {"result": ["mine"]}
    assert service.process.poll() is None
    assert service.end() == (0, "")


def test_no_catalog_waits_for_another(service: Service, cluster: ClusterInfo, scope: str) -> None:
    """80 statements wait for a controller that does not answer, and one of another catalog is answered before them."""
    dead = range(1, 81)
    for number in dead:
        service.send(number, "list_tables", NOBODY, namespace=["mine"])
    healthy = {"controller-uri": cluster.controller_uri, "schema-registry-uri": str(cluster.registry_uri)}
    assert service.ask(100, "list_tables", healthy, namespace=[scope]) == {"result": []}
    # What is taken back ends before its retry time of ten minutes is over.
    for number in dead:
        service.write(f"{number} null")
    answers = dict(service.receive() for _ in dead)
    assert answers.keys() == set(dead)
    assert {reply["error"]["condition"] for reply in answers.values()} == {"PRAVEGA_CANCELLED"}
    assert service.ask(101, "list_tables", healthy, namespace=[scope]) == {"result": []}


def begin_insert(
    service: Service, number: int, cluster: ClusterInfo, scope: str, tasks: int = 1, **options: str
) -> Insert:
    """Begin an INSERT by the call of a number, on a new table."""
    conf = {"controller-uri": cluster.controller_uri}
    table = f"t{number}"
    columns = StructType([StructField("v", LongType())]).json()
    what = {"namespace": [scope], "name": table, "properties": [["format", "csv"]], "partitions": [], "constraints": []}
    what |= {"defaults": []}
    created = service.ask(0, "create_table", conf, **what, schema=columns, adopt=False)["result"]["table"]
    rows = StructType([StructField("v", LongType()), *(StructField(name, StringType()) for name in options.values())])
    arguments = {"table": created, "schema": rows.json(), "tasks": tasks, "options": list(options.items())}
    arguments |= {"keyed": False}
    begun = service.ask(number, "begin_insert", conf, **arguments)["result"]
    return Insert(Stream(scope, table), uuid.UUID(begun["insert"]["id"].split()[-1]), created, begun)


@dataclass(frozen=True)
class Insert:
    """The transaction of an INSERT that is open."""

    stream: Stream
    transaction: uuid.UUID
    """Of a write into several streams: the roster's id."""
    table: Any
    begun: Any

    def write(self, *columns: pa.Array) -> InsertMessage | DispatchMessage:
        """Run a task with these rows, and return its report."""
        function, _ = CPickleSerializer().loads(base64.b64decode(self.begun["function"]))
        [answer] = function(iter([pa.record_batch(list(columns), names=["v", "target"][: len(columns)])]))
        report = CPickleSerializer().loads(answer["message"][0].as_py())
        assert isinstance(report, InsertMessage | DispatchMessage) and report.rows > 0
        return report

    def ended(self, client: Pravega) -> bool:
        """Whether it is aborted."""
        status = client.controller.transaction_status(self.stream, self.transaction).name
        assert status in ("OPEN", "ABORTING", "ABORTED", "UNKNOWN")
        return status in ("ABORTED", "UNKNOWN")


@pytest.fixture
def client(client_config: ClientConfig) -> Iterator[Pravega]:
    with connect(client_config) as pravega:
        yield pravega


def test_the_end_of_the_driver_aborts_before_all_else(
    service: Service, cluster: ClusterInfo, scope: str, client: Pravega
) -> None:
    """A DROP is not left half done, and so waits for its dead controller even now."""
    insert = begin_insert(service, 1, cluster, scope, tasks=2)
    service.send(2, "drop_table", NOBODY, namespace=["mine"], name="t")
    assert not insert.ended(client)
    assert service.process.stdin is not None
    service.process.stdin.close()
    wait_until(lambda: insert.ended(client), "the abort")
    assert service.process.poll() is None


def test_an_insert_that_nobody_knows_of_is_aborted(
    service: Service, cluster: ClusterInfo, scope: str, client: Pravega
) -> None:
    """The statement was interrupted when the answer was on its way."""
    known, unknown = (begin_insert(service, number, cluster, scope, tasks=2) for number in (1, 2))
    service.write("2 null")
    wait_until(lambda: unknown.ended(client), "the abort")
    assert not known.ended(client)


@pytest.mark.parametrize("others", [[], [WriterCommitMessage()]], ids=["one is missing", "one is another's"])
@pytest.mark.parametrize("several", [False, True], ids=["one stream", "several streams"])
def test_a_commit_without_the_reports_of_all_tasks_aborts(
    service: Service, cluster: ClusterInfo, scope: str, client: Pravega, others: list[Any], several: bool
) -> None:
    """Rows that a task has not reported would be missing, so none become visible."""
    options = {"stream-column": "target"} if several else {}
    insert = begin_insert(service, 1, cluster, scope, tasks=2, **options)
    rows = pa.array([1, 2], pa.int64())
    report = insert.write(rows, pa.array([insert.stream.name] * 2)) if several else insert.write(rows)
    [transaction] = (
        [part.transaction for part in report.streams.values()]
        if isinstance(report, DispatchMessage)
        else [insert.transaction]
    )
    assert client.controller.transaction_status(insert.stream, transaction).name == "OPEN"
    messages = [base64.b64encode(CPickleSerializer().dumps(one)).decode() for one in (report, *others)]
    conf = {"controller-uri": cluster.controller_uri}
    commit = {"table": insert.table, "insert": insert.begun["insert"], "messages": messages, "again": False}
    error = service.ask(2, "commit_insert", conf, **commit)["error"]
    assert error["condition"] == "PRAVEGA_TRANSACTION_MISMATCH"
    assert f"{len(messages)} of 2 tasks reported" in error["message"]
    assert "nothing was committed" in error["message"]
    left = replace(insert, transaction=transaction)
    wait_until(lambda: left.ended(client), "the abort")
    assert set(measure_tail(client, insert.stream).positions.values()) == {0}


def test_the_end_of_the_driver_ends_what_waits(service: Service) -> None:
    for number in range(1, 4):
        service.send(number, "list_tables", NOBODY, namespace=["mine"])
    assert service.ask(4, "default_namespace", NOBODY) == {"result": ["mine"]}
    assert service.end() == (0, "")


def test_a_request_that_is_none_is_answered(service: Service) -> None:
    for line, words in (
        ("7 {", "JSONDecodeError"),
        ("7 []", "TypeError"),
        ('7 {"operation": "fly", "conf": [], "arguments": {}}', "no operation 'fly'"),
        ('7 {"operation": "list_tables", "conf": [], "arguments": {}}', "ListTables has the fields namespace"),
        ('7 {"operation": "list_tables", "conf": [], "arguments": {"namespace": [1]}}', "ListTables.namespace is int"),
        ("7 " + "[" * 100_000, "RecursionError"),
    ):
        service.write(line)
        number, reply = service.receive()
        assert (number, words in reply["error"]["message"]) == (7, True), reply
    assert service.ask(8, "default_namespace", NOBODY) == {"result": ["mine"]}


def test_a_plug_in_that_exits_fails_its_call_only(tmp_path: Path) -> None:
    """As code does that was written as a program of its own."""
    steps = ("import", "make", "authorization")
    for step in steps:
        exits = {each: "raise SystemExit(3)" if each == step else "pass" for each in steps}
        (tmp_path / f"leaving_at_{step}.py").write_text(
            f"{exits['import']}\n"
            "class Login:\n"
            f"    def __init__(self): {exits['make']}\n"
            f"    def authorization(self): {exits['authorization']}\n"
        )
    service = Service(PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    for number, step in enumerate(steps):
        conf = {**NOBODY, "security.credentials": f"leaving_at_{step}:Login"}
        reply = service.ask(number, "list_tables", conf, namespace=["mine"])
        assert "SystemExit" in reply["error"]["message"], reply
        assert reply["error"]["condition"] != "PRAVEGA_INTERNAL_ERROR"
    assert service.ask(9, "default_namespace", NOBODY) == {"result": ["mine"]}
    assert service.end()[0] == 0


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_text_is_utf_8_whatever_the_environment_says(encoding: str) -> None:
    service = Service(PYTHONIOENCODING=encoding)
    conf = {**NOBODY, "scope": "grüße"}
    texts = json.dumps(list(conf.items())), json.dumps(list(conf.items()), ensure_ascii=False)
    for number, text in enumerate(texts, start=1):
        service.write(f'{number} {{"operation": "default_namespace", "conf": {text}, "arguments": {{}}}}')
        assert service.receive() == (number, {"result": ["grüße"]})
    assert service.end() == (0, "")


def test_half_of_a_surrogate_pair_is_no_text(service: Service) -> None:
    reply = service.ask(1, "create_namespace", NOBODY, namespace=["a"], properties=[["comment", "a\ud83db"]])
    assert reply["error"]["condition"] == "PRAVEGA_INVALID_OPTION"
    assert "'a\\ud83db' has '\\ud83d'" in reply["error"]["message"]


def test_a_driver_that_does_not_read_is_not_waited_for(service: Service) -> None:
    """An answer that cannot be written is not lost in silence: the pipe ends, which whoever waits for it notices."""
    assert service.ask(1, "default_namespace", NOBODY) == {"result": ["mine"]}
    assert service.process.stdout is not None
    service.process.stdout.close()
    service.send(2, "default_namespace", NOBODY)
    assert service.process.wait() == 0
