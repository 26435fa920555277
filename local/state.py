"""What is known about a local cluster, and the file in which its directory remembers it.

The file holds the users' passwords: mode 0600, as everything else in the directory that has secrets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from pyspark_pravega.errors import SetupError

from .directories import write_private
from .ports import Ports
from .processes import ServerProcess

_VERSION = 1


@dataclass(frozen=True)
class ClusterInfo:
    """What a client needs to use a cluster.

    Attributes:
        controller_uri: `tcp://host:port` or `tls://host:port`.
        registry_uri: address of the schema registry; None if there is none.
        rest_uri: the controller's REST interface; None if unknown.
        ca_file: PEM file with the authority to trust; None without TLS.
        users: name to password; empty without authentication.
    """

    controller_uri: str
    registry_uri: str | None
    rest_uri: str | None = None
    ca_file: str | None = None
    users: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class ClusterState:
    """A cluster of one directory.

    Attributes:
        ready: False from the first started process until all servers answer.
        started_at: when it was started, ISO 8601, UTC.
        storage: directory made for this run's data outside the heap; deleted when the cluster stops.
        recordings: archives of classes that servers write when they end, and where these belong.
    """

    ready: bool
    started_at: str
    info: ClusterInfo
    ports: Ports
    heap: str
    storage: str | None
    processes: Mapping[str, ServerProcess]
    recordings: Mapping[str, str] = field(default_factory=dict)

    @property
    def tls(self) -> bool:
        return self.info.ca_file is not None

    @property
    def auth(self) -> bool:
        return bool(self.info.users)

    def alive(self) -> list[str]:
        """Names of the servers that run."""
        return [name for name, process in self.processes.items() if process.is_alive()]

    @property
    def running(self) -> bool:
        """Return whether the cluster can be used: it got ready, and all its servers still run."""
        return self.ready and len(self.alive()) == len(self.processes) > 0

    def with_server(self, name: str, process: ServerProcess, recordings: Mapping[str, str]) -> Self:
        """This state and one more server."""
        return replace(self, processes={**self.processes, name: process}, recordings={**self.recordings, **recordings})

    def write(self, path: Path) -> None:
        write_private(path, json.dumps({"version": _VERSION, **asdict(self)}, indent=1).encode("utf-8"))

    @classmethod
    def read(cls, path: Path) -> ClusterState | None:
        """Read the file; None if there is none.

        Raises:
            SetupError: the file is not one that this version wrote.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise _unusable(path, str(error)) from error
        try:
            return _parse(json.loads(text))
        except (ValueError, TypeError, KeyError) as error:
            raise _unusable(path, f"{type(error).__name__}") from error


def _parse(values: dict[str, Any]) -> ClusterState:
    if values.pop("version") != _VERSION:
        raise ValueError("another version")
    processes = {name: ServerProcess(**process) for name, process in values.pop("processes").items()}
    return ClusterState(
        info=ClusterInfo(**values.pop("info")),
        ports=Ports(**values.pop("ports")),
        processes=processes,
        **values,
    )


def _unusable(path: Path, reason: str) -> SetupError:
    return SetupError(
        f"the state file {path} cannot be used ({reason}): it was damaged or written by another version. "
        "Delete it; if servers of it still run, end them by hand (ps shows them as LocalPravegaEmulator and "
        "io.pravega.schemaregistry.service.Main)"
    )
