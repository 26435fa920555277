"""Docker's client, for tests of the image: `docker` and `docker compose`, with the files of this project."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.spark_servers import free_port

ROOT = Path(__file__).resolve().parents[2]
IMAGE, NOTEBOOK = "pyspark-pravega", "pyspark-pravega-notebook"
PORTS = ("JDBC_PORT", "UI_PORT", "CONNECT_PORT", "CONNECT_UI_PORT", "NOTEBOOK_PORT", "NOTEBOOK_UI_PORT")


def docker(*arguments: str, **environment: str) -> str:
    """Run `docker` and return what it prints; what it complains of becomes the failure of the test."""
    done = subprocess.run(
        ["docker", *arguments], text=True, capture_output=True, cwd=ROOT, env={**os.environ, **environment}
    )
    assert done.returncode == 0, f"docker {' '.join(arguments)}\n{done.stdout[-5000:]}\n{done.stderr[-5000:]}"
    return done.stdout


@dataclass(frozen=True)
class Stack:
    """What compose files describe, under a name and on ports of its own, beside another one on this machine."""

    name: str
    files: Sequence[str]
    ports: Mapping[str, str] = field(default_factory=lambda: {name: str(free_port()) for name in PORTS})

    def compose(self, *arguments: str) -> str:
        files = [word for file in self.files for word in ("--file", file)]
        return docker("compose", "--project-name", self.name, *files, *arguments, **self.ports)

    def up(self, *services: str, profile: str = "") -> None:
        """Start services and wait until they are ready; all that have no profile by default."""
        self.compose(*(["--profile", profile] if profile else []), "up", "--wait", *services)

    def states(self) -> dict[str, str]:
        """Health, or else the state, of each service."""
        lines = self.compose("ps", "--all", "--format", "json").splitlines()
        return {each["Service"]: each["Health"] or each["State"] for each in map(json.loads, lines)}

    def sql(self, statements: str) -> str:
        """Run statements in the SQL shell, in the container of the Thrift server and beside it."""
        return self.compose("exec", "-T", "thriftserver", "pyspark-pravega", "sql", "-e", statements)

    def jdbc(self, statements: str) -> str:
        """Run statements over JDBC."""
        url = "jdbc:hive2://localhost:10000"
        beeline = ("pyspark-pravega", "beeline", "-u", url, "-e", f"{statements};")
        return self.compose("exec", "-T", "thriftserver", *beeline)

    def run(self, *arguments: str) -> str:
        """Run the image in a container of its own that reaches the services."""
        servers = (
            "PRAVEGA_CONTROLLER_URI=tcp://pravega:9090",
            "PRAVEGA_SCHEMA_REGISTRY_URI=http://schema-registry:9092",
        )
        variables = [word for server in servers for word in ("--env", server)]
        return docker("run", "--rm", "--network", f"{self.name}_default", *variables, *arguments)

    def down(self, *arguments: str) -> None:
        self.compose("--profile", "*", "down", "--remove-orphans", "--timeout", "20", *arguments)
