"""Starts, finds and stops a real Pravega and schema registry on this machine.

A cluster lives in a directory: `state.json` describes what runs, `logs/` keeps the servers' logs, and `run/` has the
files of one run (settings, password file, certificates, lakes), which are deleted with it. Data are kept in memory, or
in a storage directory made for the run; either way they are gone when the cluster stops.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark_pravega.client.credentials import BasicCredentials
from pyspark_pravega.errors import InvalidOptionError, SetupError

from . import accounts as user_accounts
from . import certificates, processes, readiness, servers
from .accounts import SERVER_USER, Account
from .directories import DEFAULT_LIFETIME, create_private_directory, find_default_cluster_directory, hold_lock
from .jars import cache
from .jars.lock_file import SERVERS_LOCK, read_lock
from .java import Java, find_java
from .ports import find_free_ports
from .server_class_archive import RECORDING_GRACE_S, ClassArchive
from .servers import (
    ServerHome,
    ServerProgram,
    ServerSettings,
    make_server_environment,
    prepare_pravega,
    prepare_registry,
)
from .state import ClusterInfo, ClusterState

START_TIMEOUT_S = 120.0
DEFAULT_HEAP = "1g"
_PORT_ATTEMPTS = 5
_HEAP = re.compile(r"[1-9]\d*[kmgKMG]")

Report = Callable[[str], None]


def ignore_report(_: str) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class ClusterPlan:
    """The settings of a cluster; see `LocalCluster.start`. Every account has a password."""

    tls: bool
    accounts: Mapping[str, Account] | None
    heap: str
    storage: Path | None
    properties: Mapping[str, str]
    certificate_lifetime: timedelta


class LocalCluster:
    """A Pravega with a schema registry on this machine.

    It is stopped by `stop`, or at the end of a `with` block.

    `directory`: where its state and its logs are.

    Examples
    --------
    >>> with LocalCluster.start(end_with_parent=True) as cluster:
    ...     spark = configure(
    ...         SparkSession.builder,
    ...         controller_uri=cluster.info.controller_uri,
    ...         schema_registry_uri=cluster.info.registry_uri,
    ...     ).getOrCreate()
    """

    def __init__(self, directory: Path, state: ClusterState) -> None:
        self.directory = directory
        self.state = state
        self._detach: Callable[[], None] = lambda: None

    @classmethod
    def start(  # noqa: PLR0913  (by keyword)
        cls,
        directory: Path | str | None = None,
        *,
        tls: bool = False,
        auth: bool = False,
        accounts: Mapping[str, Account] | None = None,
        heap: str = DEFAULT_HEAP,
        storage: Path | str | None = None,
        properties: Mapping[str, str] | None = None,
        certificate_lifetime: timedelta = DEFAULT_LIFETIME,
        ivy_settings: Path | str | None = None,
        timeout: float = START_TIMEOUT_S,
        end_with_parent: bool = False,
        report: Report = ignore_report,
    ) -> LocalCluster:
        """Start a cluster and wait until it answers, or return the one that already runs in the directory.

        `directory`: where its state and its logs go; by default in the user's state directory. `tls`: whether all ports
        use TLS, with a new certificate authority (`info.ca_file`). `auth`: whether it has users with passwords
        (`info.users`). `accounts`: the users, by default `accounts.DEFAULT_ACCOUNTS`; implies `auth`. `heap`: the
        memory for Pravega's JVM, e.g. `512m`, `2g`; without `storage` all data must fit into it. `storage`: a directory
        for the data, instead of the heap; for more than about a gigabyte. `properties`: further Pravega settings, by
        their full names. `certificate_lifetime`: how long the server certificate is valid (with `tls`).
        `ivy_settings`: an Ivy settings file that names a mirror, in case jars must be fetched. `timeout`: the seconds
        to wait until all servers answer. `end_with_parent`: whether the cluster stops when this process ends, however
        it ends; a cluster that was already running is left alone. `report`: receives progress, one line at a time.

        Raises SetupError if there is no Java, a jar cannot be fetched, a server does not start (the message has the end
        of its log), or a cluster of another kind already runs in the directory; InvalidOptionError if a heap size, user
        or access entry has the wrong form.

        Examples
        --------
        >>> cluster = LocalCluster.start("/tmp/pravega", tls=True, auth=True, heap="2g")
        >>> try:
        ...     print(cluster.info.controller_uri, cluster.info.ca_file)
        ... finally:
        ...     cluster.stop()
        """
        if not _HEAP.fullmatch(heap):
            raise InvalidOptionError(f"heap {heap!r} is not a size such as 512m or 2g")
        plan = ClusterPlan(
            tls,
            _choose_accounts(accounts, auth),
            heap,
            None if storage is None else Path(storage).absolute(),
            dict(properties or {}),
            certificate_lifetime,
        )
        path = Path(directory) if directory is not None else find_default_cluster_directory()
        path = create_private_directory(path.absolute())
        with hold_lock(path / "lock", lambda: report(f"waiting for another command on {path}")):
            if (running := _find_running(path, plan, report)) is not None:
                report(f"already running in {path}")
                cluster = cls(path, running)
            else:
                cluster = cls._start(path, plan, ivy_settings, timeout, report)
                if end_with_parent:
                    cluster._detach = processes.attach_lifeline(path)
        return cluster

    @classmethod
    def find(cls, directory: Path | str | None = None) -> LocalCluster | None:
        """Return the cluster of the directory, whether or not it runs, or None."""
        path = (Path(directory) if directory is not None else find_default_cluster_directory()).absolute()
        state = ClusterState.read(path / "state.json")
        return None if state is None else cls(path, state)

    @property
    def info(self) -> ClusterInfo:
        return self.state.info

    @property
    def logs(self) -> Path:
        """Return the directory of the servers' logs, which is kept when the cluster stops."""
        return self.directory / "logs"

    @property
    def lake(self) -> dict[str, str] | None:
        """Return the settings of the catalog of lakes, as pyiceberg takes them; None if the cluster has no lakes."""
        folder = self.directory / "run" / "lake"
        if not folder.is_dir():
            return None
        return {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}"}

    def add_lake(self) -> None:
        """Add a directory for lakes, unless there is one. It is deleted when the cluster stops."""
        create_private_directory(self.directory / "run" / "lake")

    def stop(self, report: Report = ignore_report) -> None:
        """End the servers, even twice, and delete their files but logs. Raises SetupError if one cannot be ended."""
        if self.directory.is_dir():
            with hold_lock(self.directory / "lock"):
                # Meanwhile another command may have stopped this cluster and started the next one.
                current = ClusterState.read(self.directory / "state.json")
                if current is not None and current.started_at == self.state.started_at:
                    _clear(self.directory, current, report)
        self._detach()

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @classmethod
    def _start(
        cls, path: Path, plan: ClusterPlan, ivy_settings: Path | str | None, timeout: float, report: Report
    ) -> LocalCluster:
        java = find_java()
        jars = cache.provide_class_path(
            read_lock(SERVERS_LOCK),
            java=java,
            report=report,
            ivy_settings=None if ivy_settings is None else Path(ivy_settings),
        )
        deadline = time.monotonic() + timeout
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            start = _Start(path, plan, java, jars, report)
            try:
                return cls(path, start.run(deadline))
            except BaseException as error:
                start.undo()
                lost_a_port = isinstance(error.__cause__, readiness.PortLost)
                if not lost_a_port or attempt == _PORT_ATTEMPTS or time.monotonic() > deadline:
                    raise
                report("another program took a port that was free a moment ago; trying others")
        raise AssertionError("unreachable")


class _Start:
    """One attempt to start the servers of a directory."""

    def __init__(self, path: Path, plan: ClusterPlan, java: Java, jars: list[Path], report: Report) -> None:
        self._path = path
        self._report = report
        self._home = ServerHome(
            java, jars, create_private_directory(path / "run"), create_private_directory(path / "logs")
        )
        self._settings = self._make_settings(plan)
        storage = self._settings.storage
        self._state = ClusterState(
            ready=False,
            started_at=datetime.now(UTC).isoformat(),
            info=self._settings.info,
            ports=self._settings.ports,
            heap=plan.heap,
            storage=None if storage is None else str(storage),
            processes={},
        )

    def _make_settings(self, plan: ClusterPlan) -> ServerSettings:
        tls = None
        if plan.tls:
            tls = certificates.create_certificates(
                create_private_directory(self._home.run / "tls"), plan.certificate_lifetime
            )
        storage = None
        if plan.storage is not None:
            plan.storage.mkdir(parents=True, exist_ok=True)
            storage = Path(tempfile.mkdtemp(prefix="pravega-", dir=plan.storage))
        return ServerSettings(find_free_ports(), plan.heap, storage, tls, plan.accounts, plan.properties)

    def run(self, deadline: float) -> ClusterState:
        """Start Pravega, and then the registry, which would wait for Pravega in ever longer steps."""
        credentials = None
        if self._settings.accounts is not None:
            credentials = BasicCredentials(SERVER_USER, user_accounts.find_server_password(self._settings.accounts))
        probes = readiness.Probes(self._state.info, self._settings.ports.segment_store, credentials)
        for make, probe in ((prepare_pravega, probes.pravega), (prepare_registry, probes.registry)):
            program = make(self._settings, self._home)
            self._launch(program, probe, deadline)
        self._state = replace(self._state, ready=True)
        self._write()
        return self._state

    def undo(self) -> None:
        """End the servers that were started, and delete their files."""
        _clear(self._path, self._state)

    def _launch(self, program: ServerProgram, probe: readiness.Probe, deadline: float) -> None:
        self._report(f"starting {program.name} (log: {program.log})")
        log = servers.ServerLog([program.log, program.output])
        process = processes.spawn(
            program.command, directory=self._home.run, output=program.output, environment=make_server_environment()
        )
        self._state = self._state.with_server(program.name, process, program.recordings)
        # Written before it is ready, so that `stop` finds it even if this process is killed while it waits.
        self._write()

        def check() -> None:
            status = processes.exit_code(process)
            if log.has_port_in_use():
                raise readiness.PortLost("it found one in use")
            if status is not None:
                raise SetupError(f"{program.name} ended with exit code {status}\n{log.tail()}")

        try:
            readiness.wait_for(probe, check, deadline)
        except readiness.PortLost as error:
            raise SetupError(f"{program.name} lost one of its ports: {error}\n{log.tail()}") from error
        except readiness.TooLate as error:
            raise SetupError(
                f"{program.name} did not answer in time; it may need more time (on a loaded machine) or "
                f"have failed:\n{log.tail()}"
            ) from error

    def _write(self) -> None:
        self._state.write(self._path / "state.json")


def _choose_accounts(accounts: Mapping[str, Account] | None, auth: bool) -> Mapping[str, Account] | None:
    if accounts is None and auth:
        accounts = user_accounts.DEFAULT_ACCOUNTS
    return None if accounts is None else user_accounts.fill_in_passwords(accounts)


def _find_running(path: Path, plan: ClusterPlan, report: Report) -> ClusterState | None:
    """Return the state of the cluster that runs in `path`; clear away what a dead or unfinished one has left."""
    state = ClusterState.read(path / "state.json")
    if state is None:
        return None
    if not state.running:
        report(f"cleaning up after an earlier cluster in {path} that did not stop properly")
        _clear(path, state)
        return None
    if (state.tls, state.auth) != (plan.tls, plan.accounts is not None):
        has = " and ".join(
            f"{'with' if on else 'without'} {what}" for on, what in ((state.tls, "TLS"), (state.auth, "users"))
        )
        raise SetupError(
            f"a cluster {has} already runs in {path}: stop it first (pyspark-pravega local stop), or start "
            "this one in another directory (--dir)"
        )
    return state


def _clear(path: Path, state: ClusterState, report: Report = ignore_report) -> None:
    """End the servers, and delete the files of the run but its logs."""
    recording = state.running and bool(state.recordings)
    grace = processes.TERMINATION_GRACE_S
    if recording:
        report("recording the servers' classes, so that they start faster from now on (once)")
        grace = RECORDING_GRACE_S
    if processes.end_processes(list(state.processes.values()), grace) and recording:
        for recorded, file in state.recordings.items():
            ClassArchive(Path(file)).keep(Path(recorded))
    if (path / "run").exists():
        shutil.rmtree(path / "run")
    if state.storage is not None and Path(state.storage).exists():
        shutil.rmtree(state.storage)
    (path / "state.json").unlink(missing_ok=True)
