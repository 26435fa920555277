"""Apicurio's registry, which has Confluent's REST API, and events in Confluent's framing."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from pyspark_pravega.local.jars.cache import provide_class_path
from pyspark_pravega.local.jars.lock_file import read_lock
from pyspark_pravega.local.java import find_java
from pyspark_pravega.local.ports import find_free_ports
from tests.kafka.broker import QUICK

_LOCK = Path(__file__).with_name("confluent_registry.lock")
_PATIENCE_S = 180


@contextmanager
def run_registry(log: Path) -> Iterator[str]:
    """Run a registry that keeps all in memory, and give the address of Confluent's API.

    What the server says goes into the file `log`.
    """
    directory = Path(tempfile.mkdtemp(prefix="registry-"))
    try:
        (archive,) = provide_class_path(read_lock(_LOCK), java=find_java(), report=print)
        with tarfile.open(archive) as files:
            files.extractall(directory, filter="data")
        (jar,) = directory.glob("*-runner.jar")
        port = find_free_ports().registry
        settings = ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}"]
        with log.open("wb") as output:
            command: list[str | Path] = [find_java().executable, *QUICK, *settings, "-jar", jar]
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            uri = f"http://127.0.0.1:{port}/apis/ccompat/v7"
            deadline = time.monotonic() + _PATIENCE_S
            while not _answers(uri):
                assert process.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
            yield uri
        finally:
            process.kill()
            process.wait()
    finally:
        shutil.rmtree(directory)


def _answers(uri: str) -> bool:
    try:
        return httpx.get(f"{uri}/subjects", trust_env=False).is_success
    except httpx.HTTPError:
        return False


def register(uri: str, subject: str, schema: Any, type: str = "AVRO", references: Any = ()) -> int:
    """Register a schema under a subject, which takes any change, and return its id."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    body = {"schema": text, "schemaType": type, "references": list(references)}
    answer = httpx.post(f"{uri}/subjects/{subject}/versions", json=body, trust_env=False, timeout=60)
    assert answer.is_success, answer.text
    id: int = answer.json()["id"]
    return id


def frame(id: int, payload: bytes) -> bytes:
    """Return an event as Confluent's serializers write it: a zero byte, the id of the schema, the payload."""
    return b"\0" + id.to_bytes(4, "big") + payload
