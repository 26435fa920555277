"""The names that programs import from the client."""

from __future__ import annotations

import subprocess
import sys

from pyspark_pravega import client


def test_each_exported_name_is_there() -> None:
    assert [name for name in client.__all__ if not hasattr(client, name)] == []


def test_importing_the_client_loads_no_network_library() -> None:
    program = "import sys, pyspark_pravega.client; print(sorted({'grpc', 'urllib3', 'pyarrow'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True)
    assert done.stdout.strip() == "[]"
