"""Makes a module `..._pb2.py` and its types `..._pb2.pyi` from each of PROTOS.

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
ROOT = Path(__file__).resolve().parents[2]
PROTOS = ("client/controller/controller.proto", "catalog/api/substrait.proto")


def main() -> int:
    """Write the modules next to their protos; return the exit status."""
    try:
        installed = version("grpcio-tools")
    except PackageNotFoundError:
        installed = "none"
    if installed != GENERATOR:
        print(f"grpcio-tools {GENERATOR} is needed, found {installed}; see the top of this file", file=sys.stderr)
        return 1
    # Compiled under the package's path, so that the generated modules import each other as part of the package.
    protos = [f"pyspark_pravega/{proto}" for proto in PROTOS]
    with tempfile.TemporaryDirectory() as target:
        outputs = [f"--{kind}_out={target}" for kind in ("python", "pyi")]
        command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={ROOT}", *outputs, *protos]
        status = subprocess.run(command, check=False).returncode
        if status == 0:
            for file in Path(target).rglob("*_pb2.py*"):
                (ROOT / file.relative_to(target)).write_bytes(file.read_bytes())
    return status


if __name__ == "__main__":
    sys.exit(main())
