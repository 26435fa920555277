"""What the image installs: the versions that the tests run with, and all that the package asks for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def pins(text: str) -> dict[str, str]:
    """The exact versions in a list of requirements, by the names as package indexes compare them."""
    found = re.findall(r"(?m)^(\w[^=\s]*)==([^\s;]+)", text)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def pinned(path: str) -> dict[str, str]:
    return pins((ROOT / path).read_text())


@pytest.mark.parametrize("path", ["docker/requirements.txt", "docker/requirements-build.txt"])
def test_the_image_has_the_versions_that_were_tested(path: str) -> None:
    assert pinned(path) and pinned(path).items() <= pinned("requirements-dev.txt").items()


def test_the_image_has_all_that_the_package_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {re.split(r"[<>=]", name)[0] for name in project["dependencies"]} <= pinned("docker/requirements.txt").keys()


def test_the_notebook_has_nothing_twice() -> None:
    """Else one would be installed over the other."""
    assert not pinned("docker/requirements.txt").keys() & pinned("docker/requirements-notebook.txt").keys()
