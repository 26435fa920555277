"""Compare two builds: archives byte for byte, and where they differ, what is in them."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path


def compare(first: Sequence[Path], second: Sequence[Path]) -> list[str]:
    """Return a line for each archive that is in one build only, or has other bytes; none if all are equal."""
    left, right = ({path.name: path for path in build} for build in (first, second))
    lines = [f"{name} is in one of them only" for name in sorted(left.keys() ^ right.keys())]
    for name in sorted(left.keys() & right.keys()):
        if left[name].read_bytes() != right[name].read_bytes():
            old, new = _read_entries(left[name]), _read_entries(right[name])
            differing = sorted(entry for entry in old.keys() | new.keys() if old.get(entry) != new.get(entry))
            lines.append(f"{name}: {', '.join(differing) or 'times, modes or the order of its entries'}")
    return lines


def _read_entries(archive: Path) -> dict[str, bytes]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist()}
    with tarfile.open(archive) as sdist:
        files = ((member.name, sdist.extractfile(member)) for member in sdist.getmembers() if member.isfile())
        return {name: file.read() for name, file in files if file is not None}
