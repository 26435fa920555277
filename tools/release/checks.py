"""Check archives before anyone gets them: their metadata, their content, and what their native code needs."""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from elftools.elf.elffile import ELFFile

LICENCES = ("LICENSE", "third-party.txt")
JARS = ("pyspark_pravega/jvm/pyspark-pravega-adapter.jar", "pyspark_pravega/jvm/pyspark-pravega-adapter-4.1.jar")
LIBRARY = "pyspark_pravega/native/_native.abi3.so"


def check_archives(archives: Sequence[Path], version: str) -> None:
    """End the program at the first archive that is not as it should be."""
    _run("twine", "check", "--strict", *map(str, archives))
    for archive in archives:
        if archive.suffix != ".whl":
            _check_sdist(archive, version)
            continue
        _check_content(archive, version)
        if not archive.name.endswith("-any.whl"):
            _check_native_code(archive)


def write_checksums(folder: Path) -> None:
    """Write SHA256SUMS, in the form that `sha256sum --check` reads."""
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


def _check_sdist(archive: Path, version: str) -> None:
    with tarfile.open(archive) as sdist:
        names = sdist.getnames()
    root = f"pyspark_pravega-{version}"
    for needed in ("PKG-INFO", "pyproject.toml", "LICENSE", "pyspark_pravega/native/third-party.txt"):
        if f"{root}/{needed}" not in names:
            sys.exit(f"{archive.name} lacks {needed}.")


def _check_content(wheel: Path, version: str) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    information = f"pyspark_pravega-{version}.dist-info"
    native = [] if wheel.name.endswith("-any.whl") else [LIBRARY]
    licences = [next((name for name in names if name.endswith(f"/{licence}")), licence) for licence in LICENCES]
    for needed in (f"{information}/METADATA", *JARS, *native, *licences):
        if needed not in names:
            sys.exit(f"{wheel.name} lacks {needed}.")
    if not native and LIBRARY in names:
        sys.exit(f"{wheel.name} has native code, but claims to fit all platforms.")


def _check_native_code(wheel: Path) -> None:
    """Check that it runs on the systems that its name promises, and uses the stable interface of Python only."""
    platform = wheel.stem.rpartition("-")[2]
    if platform.startswith("musllinux"):
        _check_for_musl(wheel)
    else:
        shown = re.sub(r"\s+", " ", _run("auditwheel", "show", str(wheel)))
        if f'following platform tag: "{platform}"' not in shown:
            sys.exit(f"{wheel.name} is not for {platform}. auditwheel says: {shown}")
    found = _run("abi3audit", "--strict", "--report", str(wheel))
    if '"is_abi3": true' not in found:
        sys.exit(f"{wheel.name} does not use the stable interface of Python. abi3audit says: {found}")


def _check_for_musl(wheel: Path) -> None:
    """Check that it needs musl alone. auditwheel knows musl's library only where that is the system's."""
    with zipfile.ZipFile(wheel) as archive:
        library = ELFFile(io.BytesIO(archive.read(LIBRARY)))
    needed = [tag.needed for tag in library.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")]
    if needed != ["libc.so"] or library.get_section_by_name(".gnu.version_r") is not None:
        sys.exit(f"{wheel.name} needs {', '.join(needed)}, or certain versions of them, and not musl alone.")


def _run(program: str, *arguments: str) -> str:
    command = [str(Path(sys.executable).with_name(program)), *arguments]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\n{program} {arguments[0]} has found something, see above.")
    return done.stdout
