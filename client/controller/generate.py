"""Makes controller_pb2.py and controller_pb2.pyi from controller.proto.

    python -m venv build/proto && build/proto/bin/pip install grpcio-tools==1.76.0
    build/proto/bin/python client/controller/generate.py

Generated code runs with the version of protobuf that it was generated with, with newer ones, and with those of the next
major number. So only a generator of the oldest version in `pyproject.toml` may generate it; any other is refused.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

GENERATOR = "1.76.0"
FOLDER = Path(__file__).resolve().parent
# Compiled under the package's path, so that the generated modules import each other as part of the package.
PACKAGE_PATH = "pyspark_pravega/client/controller"


def main() -> int:
    """Write both modules next to the proto; return the exit status."""
    try:
        installed = version("grpcio-tools")
    except PackageNotFoundError:
        installed = "none"
    if installed != GENERATOR:
        print(f"grpcio-tools {GENERATOR} is needed, found {installed}; see the top of this file", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as target:
        outputs = [f"--{kind}_out={target}" for kind in ("python", "pyi")]
        command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={PACKAGE_PATH}={FOLDER}", *outputs]
        status = subprocess.run([*command, f"{PACKAGE_PATH}/controller.proto"], check=False).returncode
        if status == 0:
            for file in Path(target, PACKAGE_PATH).iterdir():
                (FOLDER / file.name).write_bytes(file.read_bytes())
    return status


if __name__ == "__main__":
    sys.exit(main())
