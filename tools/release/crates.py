"""The Rust crates that are compiled into the native decoder, as cargo knows them."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OWN = "pyspark-pravega-native"


@dataclass(frozen=True, order=True)
class Crate:
    """A crate from crates.io; `folder` has its sources, `checksum` is the SHA-256 of its archive."""

    name: str
    version: str
    license: str
    checksum: str
    folder: Path
    needs: tuple[str, ...]
    """The crates that it needs itself, as `name version`."""

    @property
    def label(self) -> str:
        """Return its name and version."""
        return f"{self.name} {self.version}"


def list_crates(cargo: str, manifest: Path, targets: Iterable[str]) -> list[Crate]:
    """Return the crates whose code is in the library of one of the targets, sorted by name.

    Macros and build scripts run while it is compiled; they are not in it.
    """
    lock = tomllib.loads(manifest.with_name("Cargo.lock").read_text())
    checksums = {(each["name"], each["version"]): each.get("checksum", "") for each in lock["package"]}
    linked = set[tuple[str, str]]()
    for target in targets:
        tree = _ask(cargo, manifest, "tree", "--target", target, "--edges", "normal,no-proc-macro", "--prefix", "none")
        linked |= {(words[0], words[1].removeprefix("v")) for line in tree.splitlines() if (words := line.split())}
    metadata = json.loads(_ask(cargo, manifest, "metadata", "--format-version", "1"))
    packages = {package["id"]: (package["name"], package["version"]) for package in metadata["packages"]}
    needs = {packages[node["id"]]: _needed(node, packages, linked) for node in metadata["resolve"]["nodes"]}
    return sorted(
        Crate(*key, package["license"] or "", checksums[key], Path(package["manifest_path"]).parent, needs[key])
        for package in metadata["packages"]
        if (key := packages[package["id"]]) in linked
    )


def _needed(
    node: dict[str, Any], packages: dict[str, tuple[str, str]], linked: set[tuple[str, str]]
) -> tuple[str, ...]:
    normal = {each["pkg"] for each in node["deps"] if any(kind["kind"] is None for kind in each["dep_kinds"])}
    return tuple(sorted(" ".join(packages[each]) for each in normal if packages[each] in linked))


def _ask(cargo: str, manifest: Path, *arguments: str) -> str:
    command = [cargo, *arguments, "--locked", "--manifest-path", str(manifest)]
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, check=True).stdout
