"""Computes the versions of changes: their positions in the database's log, each as one number."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pyspark_pravega.formats.changes.positions import compute_commit_versions

from .names import Mask, Names, Numbers, numbers_of


def version_of(origin: str | None, position: tuple[int, int, int]) -> int:
    """Return a position as one number; 0 if the origin is unknown."""
    if origin is None:
        return 0
    major, minor = (np.array([number]) for number in position[:2])
    return int(compute_commit_versions(origin, major, minor)[0])


def versions_of(entries: pa.Table, names: Names) -> Numbers:
    """Return the position of each change as one number; 0 if it has none."""
    origin, major, minor = (numbers_of(entries, name) for name in ("origin", "major", "minor"))
    versions = np.zeros(len(entries), np.int64)
    for number in np.unique(origin[origin >= 0]).tolist():
        there = origin == number
        versions[there] = compute_commit_versions(names.origin_text(number) or "", major[there], minor[there])
    return versions


def make_ascending(versions: Numbers, first: Mask) -> Numbers:
    """Make the versions of each key ascend: Spark nets changes of a row in the order of their versions.

    A version that does not is replaced by one more than the one before. `first` marks the first entry of each key.
    """
    back = np.append(False, versions[1:] <= versions[:-1]) & ~first
    if not back.any():
        return versions
    fixed = versions.copy()
    for begin in np.flatnonzero(back).tolist():
        place = begin
        while place < len(fixed) and not first[place] and fixed[place] <= fixed[place - 1]:
            fixed[place] = fixed[place - 1] + 1
            place += 1
    return fixed
