"""PostgreSQL of the binaries of `postgres.lock`. Get it from the fixture `postgres`."""

from __future__ import annotations

import io
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark_pravega.local.jars.cache import provide_class_path
from pyspark_pravega.local.jars.lock_file import read_lock
from pyspark_pravega.local.java import find_java
from pyspark_pravega.local.ports import find_free_ports

LOCK = Path(__file__).with_name("postgres.lock")
_PROCESSORS = {"x86_64": "amd64", "aarch64": "arm64v8", "arm64": "arm64v8"}


@contextmanager
def run_postgres(log: Path) -> Iterator[str]:
    """Run a server with files of its own, and give the JDBC URL of its database.

    What the server says goes into the file `log`.
    """
    # Another user than root sees no directory of pytest's.
    directory = Path(tempfile.mkdtemp(prefix="postgres-"))
    # PostgreSQL refuses to run as root.
    user = "nobody" if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(directory, user)

    def run(program: str, *arguments: str) -> None:
        command: list[str | Path] = [directory / "bin" / program, "-D", directory / "data", *arguments]
        with log.open("ab") as output:
            subprocess.run(command, check=True, stdout=output, stderr=output, cwd=directory, user=user)

    try:
        _unpack(directory)
        port = find_free_ports().controller
        settings = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        run("initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        run("pg_ctl", "start", "-o", settings)
        try:
            yield f"jdbc:postgresql://127.0.0.1:{port}/postgres?user=postgres"
        finally:
            run("pg_ctl", "stop", "-m", "immediate")
    finally:
        shutil.rmtree(directory)


def _unpack(directory: Path) -> None:
    name = f"embedded-postgres-binaries-{platform.system().lower()}-{_PROCESSORS[platform.machine()]}"
    artifacts = [artifact for artifact in read_lock(LOCK) if artifact.name == name]
    (jar,) = provide_class_path(artifacts, java=find_java(), report=print)
    with zipfile.ZipFile(jar) as members:
        (archive,) = (member for member in members.namelist() if member.endswith(".txz"))
        with tarfile.open(fileobj=io.BytesIO(members.read(archive)), mode="r:xz") as files:
            files.extractall(directory, filter="data")
