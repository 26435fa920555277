"""A Kafka broker for tests, of the jars of `broker.lock`."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark_pravega.local.jars.cache import provide_class_path
from pyspark_pravega.local.jars.lock_file import read_lock
from pyspark_pravega.local.java import find_java
from pyspark_pravega.local.ports import find_free_ports
from tests.spark_servers import listens

LOCK = Path(__file__).with_name("broker.lock")
_PATIENCE_S = 120


QUICK = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A JVM that starts soon and takes little memory."""


@contextmanager
def broker(directory: Path, jvm: Sequence[str] = QUICK, partitions: int = 3) -> Iterator[str]:
    """Run a broker with its files in a directory, and give its address."""
    ports = find_free_ports()
    address, controller = f"127.0.0.1:{ports.controller}", f"127.0.0.1:{ports.registry}"
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{controller}",
        "listeners": f"PLAINTEXT://{address},CONTROLLER://{controller}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(directory / "topics"),
        "offsets.topic.replication.factor": "1",
        "num.partitions": str(partitions),
    }
    conf, log = directory / "server.properties", directory / "broker.log"
    conf.write_text("".join(f"{key}={text}\n" for key, text in settings.items()))
    found = find_java()
    jars = provide_class_path(read_lock(LOCK), java=found, report=print)
    java = [str(found.executable), *jvm]
    java += ["-cp", os.pathsep.join(map(str, jars))]
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
        while not listens(ports.controller):
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
