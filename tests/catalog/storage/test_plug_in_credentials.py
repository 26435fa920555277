"""`security.credentials`: somebody's own code logs in, in the service and in the tasks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyspark_pravega.local.state import ClusterInfo

DRIVER = Path(__file__).with_name("plug_in_driver.py")
# As users write one: a plain dataclass, which is compared by value and so cannot be hashed.
PLUG_IN = """\
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from pyspark_pravega.client.credentials import BasicCredentials


@dataclass
class Login:
    user: str = "admin"
    asked: list[str] = field(default_factory=list)

    def authorization(self) -> str:
        self.asked.append("now")
        process = Path("/proc/self/cmdline").read_bytes().replace(b"\\0", b" ").decode()
        Path(os.environ["ASKED"], str(os.getpid())).write_text(process)
        return BasicCredentials(self.user, os.environ["VAULT"]).authorization()


def make() -> Login:
    return Login()
"""


@pytest.mark.parametrize("attribute", ["Login", pytest.param("make", marks=pytest.mark.faults)])
def test_a_plug_in_logs_in_everywhere(
    secure_cluster: ClusterInfo, secure_scope: str, tmp_path: Path, attribute: str
) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "vault_login.py").write_text(PLUG_IN)
    asked = tmp_path / "asked"
    asked.mkdir()
    found = [str(tmp_path / "modules"), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [
            *(sys.executable, str(DRIVER), f"vault_login:{attribute}", secure_scope),
            *(secure_cluster.controller_uri, str(secure_cluster.registry_uri), str(secure_cluster.ca_file)),
        ],
        text=True,
        capture_output=True,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(found),
            "VAULT": secure_cluster.users["admin"],
            "ASKED": str(asked),
        },
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert json.loads(done.stdout.splitlines()[-1]) == list(range(40))
    processes = [file.read_text() for file in asked.iterdir()]
    assert len([text for text in processes if "pyspark_pravega.catalog.service" in text]) == 1, processes
    assert [text for text in processes if "worker_daemon" in text], processes
    assert secure_cluster.users["admin"] not in done.stdout + done.stderr
