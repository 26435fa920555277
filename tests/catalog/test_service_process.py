"""The service as a process: what ends it and what does not."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

NOBODY = {"controller-uri": "tcp://localhost:1", "catalog-name": "pravega", "scope": "mine"}


@pytest.fixture
def service() -> Iterator[subprocess.Popen[str]]:
    """A service as the adapter starts it."""
    command = [sys.executable, "-m", "pyspark_pravega.catalog.service"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def ask(service: subprocess.Popen[str], number: int) -> Any:
    assert service.stdin is not None and service.stdout is not None
    request = {"id": number, "operation": "default_namespace", "conf": NOBODY, "arguments": {}}
    service.stdin.write(json.dumps(request) + "\n")
    service.stdin.flush()
    return json.loads(service.stdout.readline())


def test_the_interrupt_of_a_terminal_does_not_end_it(service: subprocess.Popen[str]) -> None:
    """Ctrl-C in a SQL shell is sent to every process of the shell."""
    assert ask(service, 1) == {"id": 1, "result": ["mine"]}
    for number in range(2, 5):
        service.send_signal(signal.SIGINT)
        assert ask(service, number) == {"id": number, "result": ["mine"]}
    assert service.poll() is None
    said = service.communicate()[1]  # closes its stdin
    assert (service.returncode, said) == (0, "")
