"""The state of a local cluster, and the file in which its directory keeps it.

The file has the users' passwords and therefore the mode 0600, like every file with secrets in the directory.
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

    `controller_uri`: `tcp://host:port` or `tls://host:port`. `registry_uri`: the address of the schema registry, if
    there is one. `rest_uri`: the address of the controller's REST interface, if it is known. `ca_file`: a PEM file with
    the authority to trust; None without TLS. `users`: the users' passwords; empty without authentication.
    """

    controller_uri: str
    registry_uri: str | None
    rest_uri: str | None = None
    ca_file: str | None = None
    users: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class ClusterState:
    """The state of the cluster of a directory."""

    ready: bool
    """False from the first started process until all servers answer."""
    started_at: str
    """When it was started: ISO 8601, UTC."""
    info: ClusterInfo
    ports: Ports
    heap: str
    storage: str | None
    """The directory made for this run's data outside the heap, which is deleted when the cluster stops."""
    processes: Mapping[str, ServerProcess]
    recordings: Mapping[str, str] = field(default_factory=dict)
    """Archives of classes that servers write when they end, and their places in the cache."""

    @property
    def tls(self) -> bool:
        return self.info.ca_file is not None

    @property
    def auth(self) -> bool:
        """Return whether the cluster has users."""
        return bool(self.info.users)

    def alive(self) -> list[str]:
        """Return the names of the servers that run."""
        return [name for name, process in self.processes.items() if process.is_alive()]

    @property
    def running(self) -> bool:
        """Return whether the cluster can be used: it was ready, and all its servers still run."""
        return self.ready and len(self.alive()) == len(self.processes) > 0

    def with_server(self, name: str, process: ServerProcess, recordings: Mapping[str, str]) -> Self:
        return replace(self, processes={**self.processes, name: process}, recordings={**self.recordings, **recordings})

    def write(self, path: Path) -> None:
        write_private(path, json.dumps({"version": _VERSION, **asdict(self)}, indent=1).encode("utf-8"))

    @classmethod
    def read(cls, path: Path) -> ClusterState | None:
        """Return the state in a file; None if there is no file. Raises SetupError if another version wrote it."""
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise _make_unusable_error(path, str(error)) from error
        try:
            return _parse(json.loads(text))
        except (ValueError, TypeError, KeyError) as error:
            raise _make_unusable_error(path, f"{type(error).__name__}") from error


def _parse(values: dict[str, Any]) -> ClusterState:
    if values.pop("version") != _VERSION:
        raise ValueError("another version")
    processes = {name: ServerProcess(**process) for name, process in values.pop("processes").items()}
    return ClusterState(
        info=ClusterInfo(**values.pop("info")), ports=Ports(**values.pop("ports")), processes=processes, **values
    )


def _make_unusable_error(path: Path, reason: str) -> SetupError:
    return SetupError(
        f"the state file {path} cannot be used ({reason}): it was damaged, or written by another version. "
        "Delete it; if its servers still run, end them by hand (ps shows them as LocalPravegaEmulator and "
        "io.pravega.schemaregistry.service.Main)"
    )
