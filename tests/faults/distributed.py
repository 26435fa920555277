"""A Pravega whose servers are processes of their own, so that each can be killed, frozen and started again.

The standalone server keeps its log and its metadata in memory. Here they are in ZooKeeper and in a bookie of
BookKeeper, which share a process that nobody harms. A segment store and a controller run beside it, as on a cluster;
what they have acknowledged outlives them. One that ends is started again, as a cluster's orchestrator does: the
controller ends by itself when ZooKeeper has taken it for dead.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark_pravega.local import readiness
from pyspark_pravega.local.jars import cache
from pyspark_pravega.local.jars.lock_file import SERVERS_LOCK, read_lock
from pyspark_pravega.local.java import find_java
from pyspark_pravega.local.ports import find_free_ports
from pyspark_pravega.local.servers import ServerHome, ServerSettings, make_server_environment, prepare_registry

CLUSTER = "faults"
CONTAINERS = "4"
SESSION = "4000"
"""Milliseconds after which ZooKeeper takes a silent server for dead."""

CACHE_BYTES = 256 << 20
LEDGERS = "/pravega/bookkeeper/ledgers"
START_SECONDS = 180.0
LOGGING = """<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{file}</file><encoder><pattern>%date %-5level [%thread] %logger{{36}}: %message%n</pattern></encoder>
  </appender>
  <logger name="org.apache.curator" level="OFF"/>
  <root level="WARN"><appender-ref ref="file"/></root>
</configuration>
"""


class Servers:
    """ZooKeeper with a bookie, a segment store, a controller and a schema registry, in one directory."""

    def __init__(self, directory: Path) -> None:
        """Start all and wait until they answer."""
        self._directory = directory
        self._java = find_java()
        locks = (SERVERS_LOCK, Path(__file__).parent / "bookkeeper.lock")
        artifacts = [artifact for lock in locks for artifact in read_lock(lock)]
        self._jars = cache.provide_class_path(artifacts, java=self._java, report=print)
        self._settings = ServerSettings(find_free_ports(), heap="512m")
        self._bookie = find_free_ports().zookeeper
        self.info = self._settings.info
        (directory / "storage").mkdir()
        (directory / "empty.properties").touch()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._closing = threading.Event()
        self._keeper = threading.Thread(target=self._keep_running, name="servers", daemon=True)
        try:
            self._start_all()
        except BaseException:
            self.close()
            raise

    def kill(self, server: str) -> None:
        """Kill a server; it is started again while others go on."""
        self._processes[server].kill()

    def freeze(self, server: str, seconds: float) -> Callable[[], None]:
        """Stop a server as a machine does that hangs; return what waits so long and wakes it."""
        process = self._processes[server]
        os.kill(process.pid, signal.SIGSTOP)

        def wake() -> None:
            time.sleep(seconds)
            os.kill(process.pid, signal.SIGCONT)

        return wake

    def close(self) -> None:
        """End all."""
        self._closing.set()
        if self._keeper.is_alive():
            self._keeper.join()
        for process in self._processes.values():
            process.kill()
            process.wait()

    def _keep_running(self) -> None:
        while not self._closing.wait(0.2):
            for server in ("store", "controller"):
                if self._processes[server].poll() is not None:
                    self._start(server)

    def _start_all(self) -> None:
        probes = readiness.Probes(self.info, self._settings.ports.segment_store, None)
        for server in ("bookkeeper", "store", "controller"):
            self._start(server)
        self._keeper.start()  # the segment store gives up where ZooKeeper does not answer yet
        self._wait_for(probes.pravega)
        registry = prepare_registry(
            self._settings, ServerHome(self._java, self._jars, self._directory, self._directory)
        )
        self._run("registry", list(registry.command))
        self._wait_for(probes.registry)

    def _wait_for(self, probe: readiness.Probe) -> None:
        def check() -> None:
            for server in self._processes.keys() - {"store", "controller"}:
                assert self._processes[server].poll() is None, f"{server} ended: see {self._directory}"

        readiness.wait_for(probe, check, time.monotonic() + START_SECONDS)

    def _start(self, server: str) -> None:
        main, properties = {"bookkeeper": self._bookkeeper, "store": self._store, "controller": self._controller}[
            server
        ]()
        logging, temporary = self._directory / f"{server}.xml", self._directory / server
        logging.write_text(LOGGING.format(file=self._directory / f"{server}.log"))
        temporary.mkdir(exist_ok=True)
        properties |= {"java.io.tmpdir": str(temporary), "logback.configurationFile": str(logging)}
        options = ["-Xmx512m", f"-XX:MaxDirectMemorySize={2 * CACHE_BYTES}", "-XX:+UseSerialGC"]
        options += ["-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
        options += [f"-D{key}={value}" for key, value in properties.items()]
        class_path = os.pathsep.join(map(str, self._jars))
        self._run(server, [str(self._java.executable), *options, "-cp", class_path, main])

    def _run(self, server: str, command: list[str]) -> None:
        with (self._directory / f"{server}.out").open("ab") as output:
            self._processes[server] = subprocess.Popen(
                command, cwd=self._directory, stdout=output, stderr=output, env=make_server_environment()
            )

    @property
    def _zookeeper(self) -> str:
        return f"localhost:{self._settings.ports.zookeeper}"

    def _bookkeeper(self) -> tuple[str, dict[str, str]]:
        return "io.pravega.segmentstore.storage.impl.bookkeeper.BookKeeperServiceRunner", {
            "startZk": "true",
            "zkPort": str(self._settings.ports.zookeeper),
            "zkLedgersPath": LEDGERS,
            "basePort": str(self._bookie),
            "bookieCount": "1",
        }

    def _store(self) -> tuple[str, dict[str, str]]:
        service = {
            "container.count": CONTAINERS,
            "clusterName": CLUSTER,
            "zk.connect.uri": self._zookeeper,
            "zk.connect.sessionTimeout.milliseconds": SESSION,
            "service.listener.port": str(self._settings.ports.segment_store),
            "service.listener.host.nameOrIp": "localhost",
            "service.published.host.nameOrIp": "localhost",
            "dataLog.impl.name": "BOOKKEEPER",
            "storage.impl.name": "FILESYSTEM",
            "cache.size.max": str(CACHE_BYTES),
            "admin.gateway.enable": "false",
            "rest.listener.enable": "false",
        }
        return "io.pravega.segmentstore.server.host.ServiceStarter", {
            "pravega.configurationFile": str(self._directory / "empty.properties"),
            **{f"pravegaservice.{key}": value for key, value in service.items()},
            "filesystem.root": str(self._directory / "storage"),
            "bookkeeper.zk.connect.uri": self._zookeeper,
            "bookkeeper.ledger.path": LEDGERS,
            **{f"bookkeeper.{size}.size": "1" for size in ("ensemble", "ack.quorum", "write.quorum")},
            "autoScale.controller.connect.uri": self.info.controller_uri,
            **{f"autoScale.{pause}.time.seconds": "10" for pause in ("cooldown", "mute")},
        }

    def _controller(self) -> tuple[str, dict[str, str]]:
        ports = self._settings.ports
        controller = {
            "cluster.name": CLUSTER,
            "container.count": CONTAINERS,
            "rebalance.interval.seconds.min": "2",
            "zk.connect.uri": self._zookeeper,
            "zk.connect.session.timeout.milliseconds": SESSION,
            "service.rpc.listener.port": str(ports.controller),
            "service.rpc.published.host.nameOrIp": "localhost",
            "service.rpc.published.port": str(ports.controller),
            "service.rest.listener.port": str(ports.controller_rest),
        }
        return "io.pravega.controller.server.Main", {f"controller.{key}": value for key, value in controller.items()}
