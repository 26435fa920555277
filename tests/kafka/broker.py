"""A Kafka broker for tests, of the jars of `kafka.lock`."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark_pravega.local.jar_cache import class_path
from pyspark_pravega.local.java import find_java
from pyspark_pravega.local.lock_file import Artifact, read_lock
from pyspark_pravega.local.ports import free_ports

LOCK = Path(__file__).with_name("kafka.lock")
_CLIENTS_OF_SPARK = ("kafka-clients", "3.9.2")
_PATIENCE_S = 120


def jars_of(*, spark: str | None) -> list[Path]:
    """The jars of Spark's packages in a version, or of the broker with None."""
    artifacts = read_lock(LOCK)
    # The broker's are those behind the last one that only Spark's packages use.
    (behind,) = [number for number, each in enumerate(artifacts) if (each.name, each.version) == _CLIENTS_OF_SPARK]
    chosen: Sequence[Artifact] = artifacts[behind + 1 :]
    if spark is not None:
        chosen = [each for each in artifacts[: behind + 1] if each.group != "org.apache.spark" or each.version == spark]
    return class_path(chosen, java=find_java(), report=print)


@contextmanager
def broker(directory: Path) -> Iterator[str]:
    """Run a broker with its files in a directory, and give its address."""
    ports = free_ports()
    address, controller = f"127.0.0.1:{ports.controller}", f"127.0.0.1:{ports.registry}"
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{controller}",
        "listeners": f"PLAINTEXT://{address},CONTROLLER://{controller}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(directory / "topics"),
        "offsets.topic.replication.factor": "1",
    }
    conf, log = directory / "server.properties", directory / "broker.log"
    conf.write_text("".join(f"{key}={text}\n" for key, text in settings.items()))
    java = [str(find_java().executable), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    java += ["-cp", os.pathsep.join(map(str, jars_of(spark=None)))]
    format_ = [
        *java,
        "kafka.tools.StorageTool",
        "format",
        "--cluster-id",
        "AAAAAAAAAAAAAAAAAAAAAA",
        "--config",
        str(conf),
    ]
    subprocess.run(format_, check=True, capture_output=True)
    with log.open("wb") as output:
        process = subprocess.Popen([*java, "kafka.Kafka", str(conf)], stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + _PATIENCE_S
        while not _listens(ports.controller):
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0
