"""Two Pythons and executors of their own: the driver's runs the service, that of PYSPARK_PYTHON the tasks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyspark_pravega.local.state import ClusterInfo
from tests.spark_cluster import standalone_cluster

DRIVER = Path(__file__).with_name("cluster_driver.py")
PLUG_IN = """\
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from vault_token import TOKEN

# Who imports this: the Python, and the process that has started it.
Path(os.environ["ASKED"], str(os.getpid())).write_text(f"{sys.executable} {os.getppid()}")


@dataclass
class Login:
    def authorization(self) -> str:
        return TOKEN
"""


def new_python(directory: Path) -> str:
    """Make a virtual environment that finds what this one has; return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    packages = next(directory.glob("lib/python*/site-packages"))
    everything = sysconfig.get_path("purelib")
    (packages / "everything.pth").write_text(f"import site; site.addsitedir({everything!r})\n")
    return str(directory / "bin" / "python")


@contextmanager
def master_of(directory: Path, standalone: bool) -> Iterator[str]:
    """Yield the URL of a master with two executors: on a cluster, or on the small one inside of the driver."""
    if standalone:
        with standalone_cluster(directory) as master:
            yield master
    else:
        yield "local-cluster[2,2,1024]"


@pytest.mark.parametrize("standalone", [False, pytest.param(True, marks=pytest.mark.long)])
def test_tasks_and_service_run_the_pythons_chosen_for_them(
    cluster: ClusterInfo, scope: str, tmp_path: Path, standalone: bool
) -> None:
    """PYSPARK_DRIVER_PYTHON is a notebook here: it is no Python, and runs neither."""
    python = {name: new_python(tmp_path / name) for name in ("driver", "tasks")}
    asked = {name: tmp_path / f"asked-by-{name}" for name in python}
    for directory in asked.values():
        directory.mkdir()
    with zipfile.ZipFile(tmp_path / "vault.zip", "w") as archive:
        archive.writestr("vault_login.py", PLUG_IN)
    (tmp_path / "vault_token.py").write_text('TOKEN = "Basic YTpi"')
    plug_in = f"{tmp_path / 'vault.zip'},{tmp_path / 'vault_token.py'}"
    with master_of(tmp_path, standalone) as master:
        done = subprocess.run(
            [
                *(python["driver"], str(DRIVER), master, f"pravega.`{scope}`.t", cluster.controller_uri),
                *(str(cluster.registry_uri), plug_in, str(asked["tasks"])),
            ],
            text=True,
            capture_output=True,
            cwd=tmp_path,
            env={
                **os.environ,
                "PYSPARK_DRIVER_PYTHON": "jupyter",
                "PYSPARK_PYTHON": python["tasks"],
                "ASKED": str(asked["driver"]),
            },
        )
    assert done.returncode == 0, done.stderr[-5000:]
    assert json.loads(done.stdout.splitlines()[-1]) == list(range(800))
    found = {name: [file.read_text().split() for file in asked[name].iterdir()] for name in python}
    assert {one for one, _ in found["driver"]} == {python["driver"]}
    assert {one for one, _ in found["tasks"]} == {python["tasks"]}
    assert len({parent for _, parent in found["tasks"]}) == 2, "one daemon for each executor"
