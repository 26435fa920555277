"""Does harm to a driver under test: waits until one of its processes comes to a point, strikes, and lets it go on."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig, Endpoint
from pyspark_pravega.client.stream import Stream
from pyspark_pravega.local.state import ClusterInfo
from tests.cutting_proxy import CommandProxy, CuttingProxy
from tests.faults.points import OTHER_POINTS, POINTS, POINTS_OF_LARGE_TASKS, POINTS_OF_STATEMENTS, Point
from tests.forgetful_controller import ForgetfulController, open_forgetful
from tests.processes import descendants, running

HERE = Path(__file__).parent
SECONDS = 300.0
OUTLIVED = (
    "PRAVEGA_QUERY_FENCED",
    "CONCURRENT_STREAM_LOG_UPDATE",
    "Multiple streaming queries are concurrently using",
)
"""How a query fails that another run has overtaken: by us, or by Spark, which finds the other's offsets or commits."""


@dataclass(frozen=True)
class Fault:
    """A strike that was done: `processes` are those that it killed."""

    point: str
    kind: str
    processes: tuple[int, ...] = ()


class Driver:
    """A driver under test, from its start to its end."""

    def __init__(
        self,
        directory: Path,
        name: str,
        master: str,
        scope: str,
        environment: dict[str, str],
        queries: Sequence[str] = ("target",),
    ):
        self._directory, self.name, self.master = directory, name, master
        self.checkpoint = directory / f"checkpoint-{queries[0]}"
        command = [sys.executable, str(HERE / "driver.py"), str(directory), name, master, scope, *queries]
        with (directory / f"{name}.log").open("w") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=directory, env={**os.environ, **environment}
            )

    def _file(self, kind: str) -> Path:
        return self._directory / f"{self.name}.{kind}"

    def log(self) -> str:
        """Return what it has printed last."""
        return self._file("log").read_text()[-6000:]

    def failures(self) -> list[str]:
        """Return the messages of its queries' failures."""
        return self._file("failures").read_text().splitlines() if self._file("failures").exists() else []

    def alive(self) -> bool:
        """Tell whether it runs."""
        return self.process.poll() is None

    def wait_for(self, condition: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
        """Wait until something has happened; fail if this driver ends before, or takes too long."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, f"{self.name} ended before {what}:\n{self.log()}"
            assert time.monotonic() < deadline, f"{self.name}: never happened: {what}\n{self.failures()}\n{self.log()}"
            time.sleep(0.01)

    def wait_until_ready(self) -> None:
        """Wait until it could stream."""
        self.wait_for(lambda: self._file("ready").exists(), "being ready")

    def go(self) -> None:
        """Let it stream as soon as it is ready."""
        self.wait_until_ready()
        self._file("go").touch()

    def end_at_failure(self) -> None:
        """Let it not begin its query again when it fails next."""
        self._file("once").touch()

    def batches(self) -> int:
        """Return how many micro-batches of its first query are done, by this driver or others before it."""
        done = (self.checkpoint / "commits").glob("[0-9]*")
        return max((int(each.name) + 1 for each in done), default=0)

    def everything(self) -> list[int]:
        """Return all of its processes."""
        return [self.process.pid, *descendants(self.process.pid)]

    def finish(self) -> None:
        """Let it bring its queries up to date, and end."""
        self._file("stop").touch()
        try:
            code = self.process.wait(timeout=180)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} does not end\n{self.failures()}\n{self.log()}") from None
        assert code == 0, self.log()

    def family(self, *words: str) -> list[int]:
        """Return its processes whose command lines have all of these words."""
        return [pid for pid in descendants(self.process.pid) if all(word in running(pid) for word in words)]

    def victims(self, kind: str) -> list[int]:
        """Return the processes of a kind, "driver" with its JVM."""
        if kind == "service":
            return self.family("pyspark_pravega.catalog.service")
        if kind == "executor":
            return self.family("CoarseGrainedExecutorBackend")
        if kind == "worker":
            return [pid for pid in self.family("pyspark_pravega.datasource.worker_daemon") if not descendants(pid)]
        return [*self.family("java", "org.apache.spark.deploy.SparkSubmit"), self.process.pid]

    def kill(self) -> None:
        """Kill the driver, its executors and workers; its service sees its end by itself."""
        doomed = [pid for kind in ("driver", "executor", "worker") for pid in self.victims(kind)]
        for pid in doomed:
            kill(pid)
        self.process.wait(timeout=30)

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


def send(pid: int, what: signal.Signals) -> bool:
    """Send a signal to a process; whether there is one."""
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        return False
    return True


def kill(pid: int) -> bool:
    """Kill a process; whether it ran."""
    return send(pid, signal.SIGKILL)


@dataclass
class Network:
    """The servers behind proxies; the processes under test know no other way to them."""

    controller: CuttingProxy
    store: CommandProxy
    forgetful: ForgetfulController
    """The controller behind its proxy, in front of the real one."""

    def environment(self, cluster: ClusterInfo) -> dict[str, str]:
        """Return what tells processes under test of it."""
        return {
            "FAULT_CONTROLLER": f"tcp://{self.controller.endpoint}",
            "FAULT_REGISTRY": str(cluster.registry_uri),
            "FAULT_ROUTES": f"{self.store.target}={self.store.endpoint}",
        }

    def cut(self, chance: random.Random) -> None:
        """Cut all connections, and some of the next ones in the middle of what they carry."""
        for proxy in (self.controller, self.store):
            for _ in range(chance.randrange(3)):
                proxy.limits.append((chance.choice([None, 200, 2000]), chance.randrange(20, 2000)))
            proxy.cut_all()

    def lose_commit(self) -> None:
        """Let the controller forget the next commit that it is asked for, after it has accepted it."""
        self.forgetful.forgets["commitTransaction"] += 1

    def away(self, seconds: float) -> None:
        """Cut all connections and take no new ones for a while, as servers do that restart and keep their data."""
        for proxy in (self.controller, self.store):
            proxy.away.set()
            proxy.cut_all()
        time.sleep(seconds)
        for proxy in (self.controller, self.store):
            proxy.away.clear()


@contextmanager
def network_of(config: ClientConfig, cluster: ClusterInfo, stream: Stream) -> Iterator[Network]:
    """Put the servers of a cluster behind proxies; any stream of it tells where its segment store is."""
    with connect(config) as pravega:
        store = pravega.controller.segment_location(stream, 0)
    plain = replace(config, controller_uri=cluster.controller_uri)
    with open_forgetful(plain) as (forgetful, behind):
        target = Endpoint("localhost", behind.controller_endpoints[0].port)
        with closing(CuttingProxy(target)) as controller, closing(CommandProxy(store)) as segments:
            yield Network(controller, segments, forgetful)


@dataclass
class Director:
    """Arms faults one by one and carries them out."""

    directory: Path
    network: Network
    chance: random.Random
    harms: dict[str, Callable[[], Callable[[], None] | None]] = field(default_factory=dict)
    """What is done to servers and connections, by its name; it returns what ends it, after the process goes on."""
    patience: float = SECONDS
    outlived: Sequence[str] = OUTLIVED
    done: list[Fault] = field(default_factory=list)
    _caught: int = 0

    def __post_init__(self) -> None:
        self.harms["connection"] = lambda: self.network.cut(self.chance)
        self.harms["lost commit"] = self.network.lose_commit
        self.harms["server"] = lambda: self.network.away(self.chance.uniform(0.2, 1.0))
        for name in ("armed", "reached", "go"):
            (self.directory / name).mkdir()

    def environment(self) -> dict[str, str]:
        """Return the environment that puts processes under this director."""
        points = (*POINTS, *OTHER_POINTS, *POINTS_OF_LARGE_TASKS, *POINTS_OF_STATEMENTS)
        of_process = {name: [one.text() for one in points if one.process == name] for name in ("service", "worker")}
        paths = [str(HERE / "injected"), os.environ.get("PYTHONPATH", "")]
        return {
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            "FAULT_CONTROL": str(self.directory),
            "FAULT_POINTS_SERVICE": " ".join(of_process["service"]),
            "FAULT_POINTS_WORKER": " ".join(of_process["worker"]),
        }

    def catch(self, point: Point, alive: Callable[[], bool], passes: int = 0) -> tuple[str, int]:
        """Wait until a process has come to a point; return the fault's name and the process, which waits there."""
        self._caught += 1
        name = f"{self._caught}"
        (self.directory / "armed" / f"{name},{point.name},{passes}").touch()
        deadline = time.monotonic() + self.patience
        while not (reached := list((self.directory / "reached").glob(f"{name},*"))):
            assert alive(), f"it ended before point '{point.name}'"
            assert time.monotonic() < deadline, f"nothing came to point '{point.name}'"
            time.sleep(0.005)
        return name, int(reached[0].name.partition(",")[2])

    def release(self, name: str) -> None:
        """Let the process go on that waits at the point of a fault."""
        (self.directory / "go" / name).touch()

    def outlive(self, driver: Driver, point: Point, successor: Driver) -> None:
        """Freeze a driver when it comes to a point, as if its machine hung, and wake it when another has gone on.

        It must end by itself then, with an error that says why.
        """
        name, _ = self.catch(point, driver.alive)
        driver.end_at_failure()
        frozen = driver.everything()
        for pid in frozen:
            send(pid, signal.SIGSTOP)
        try:
            batches = successor.batches()
            successor.go()
            successor.wait_for(lambda: successor.batches() > batches + 2, "three more micro-batches")
        finally:
            for pid in frozen:
                send(pid, signal.SIGCONT)
        self.release(name)
        driver.process.wait(timeout=SECONDS)
        last = driver.failures()[-1]
        assert any(each in last for each in self.outlived), last
        self.done.append(Fault(point.name, "zombie", (driver.process.pid,)))

    def strike(self, driver: Driver, point: Point, kind: str, passes: int = 0) -> None:
        """Do harm of a kind when a process comes to a point; it counts only if something was there to be harmed."""
        name, pid = self.catch(point, driver.alive, passes)
        killed: list[int] = []
        end = None
        if kind in self.harms:
            end = self.harms[kind]()
        elif kind == "driver":
            driver.kill()
            killed = [driver.process.pid]
        else:
            while not (killed := [victim for victim in self._victims(driver, kind, pid) if kill(victim)]):
                # A new executor has no workers before its first task, for which it waits where a point holds the query.
                self.release(name)
                name, pid = self.catch(point, driver.alive)
        self.release(name)
        if end is not None:
            end()
        self.done.append(Fault(point.name, kind, tuple(killed)))

    def _victims(self, driver: Driver, kind: str, pid: int) -> list[int]:
        """Choose who is killed: of the kind, the process at the point or the one that it belongs to, or any."""
        found = driver.victims(kind)
        if pid in found:
            return [pid]
        near = [one for one in found if pid in descendants(one)]
        return near or ([self.chance.choice(found)] if found else [])

    def close(self) -> None:
        """Let everybody go on that still waits."""
        for one in (self.directory / "armed").iterdir():
            with contextlib.suppress(FileNotFoundError):
                one.unlink()
        for one in (self.directory / "reached").iterdir():
            self.release(one.name.partition(",")[0])
