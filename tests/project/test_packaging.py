"""What is built and installed: complete, the same every time, and usable from nothing but a wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BACKEND = "import os, sys; sys.path.insert(0, 'tools'); import build_backend as b; print(b.{call})"


def tracked_files() -> list[Path]:
    """Files of the checkout, those not yet committed too, but nothing that was built."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True).stdout
    return [Path(name) for name in listed.split("\0") if name and (ROOT / name).is_file()]


def run(command: list[str], cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, text=True, capture_output=True, env=environment or None)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout in which nothing was built yet."""
    copy = tmp_path_factory.mktemp("checkout")
    for path in tracked_files():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, copy / path)
    return copy


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel built from the source distribution, as an index's user would get it."""
    out = tmp_path_factory.mktemp("out")
    done = run([sys.executable, "-c", BACKEND.format(call=f"build_sdist({str(out)!r})")], checkout)
    assert done.returncode == 0, done.stderr
    with tarfile.open(next(out.glob("*.tar.gz"))) as archive:
        archive.extractall(out, filter="data")
    unpacked = next(path for path in out.iterdir() if path.is_dir())
    done = run([sys.executable, "-c", BACKEND.format(call=f"build_wheel({str(out)!r})")], unpacked)
    assert done.returncode == 0, done.stderr
    return next(out.glob("*.whl"))


def test_every_package_folder_is_listed() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {path.parent.as_posix() for path in tracked_files() if path.name == "__init__.py"}
    ours = {folder for folder in folders if folder.split("/")[0] not in ("tests", "bench")}
    assert ours == set(setuptools["package-dir"].values())
    assert set(setuptools["packages"]) == set(setuptools["package-dir"])


def test_the_wheel_is_complete(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for needed in (
        "pyspark_pravega/py.typed",
        "pyspark_pravega/client/controller_pb2.pyi",
        "pyspark_pravega/jvm/pyspark-pravega-adapter.jar",
        "pyspark_pravega/local/servers.lock",
        "pyspark_pravega/sql/options.py",
    ):
        assert needed in names, needed
    packages = {name.split("/")[0] for name in names}
    assert {name for name in packages if not name.endswith(".dist-info")} == {"pyspark_pravega"}


def test_the_same_sources_make_the_same_jar(wheel: Path, checkout: Path) -> None:
    done = run([sys.executable, "tools/build_backend.py"], checkout)
    assert done.stdout.strip().endswith("compiled"), done.stderr
    with zipfile.ZipFile(wheel) as archive:
        shipped = archive.read("pyspark_pravega/jvm/pyspark-pravega-adapter.jar")
    assert (checkout / "jvm" / "pyspark-pravega-adapter.jar").read_bytes() == shipped
    assert run([sys.executable, "tools/build_backend.py"], checkout).stdout.strip().endswith("up to date")


def test_an_installed_wheel_works_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    run([sys.executable, "-m", "venv", str(tmp_path / "venv")], tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    done = run([str(python), "-m", "pip", "install", "--quiet", "--no-deps", str(wheel)], tmp_path)
    assert done.returncode == 0, done.stderr
    # The dependencies of this environment; a path file is not read through, so its editable install is not seen.
    site = next((tmp_path / "venv" / "lib").glob("python3.*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    jar = run([str(tmp_path / "venv" / "bin" / "pyspark-pravega"), "jar"], tmp_path).stdout.strip()
    assert jar == str(site / "pyspark_pravega" / "jvm" / "pyspark-pravega-adapter.jar") and Path(jar).is_file()
    program = (
        "from pyspark.sql import SparkSession\n"
        "from pyspark_pravega import configure\n"
        "spark = configure(SparkSession.builder.master('local[1]')).getOrCreate()\n"
        "spark.catalog.setCurrentCatalog('pravega')\n"
        "print(spark.catalog.currentCatalog())\n"
    )
    done = run([str(python), "-c", program], tmp_path, PATH="/usr/bin:/bin")
    assert done.stdout.strip() == "pravega", done.stderr


def test_building_without_a_jdk_says_what_is_missing(checkout: Path, tmp_path: Path) -> None:
    (checkout / "jvm" / "pyspark-pravega-adapter.jar").unlink(missing_ok=True)
    call = BACKEND.format(call="build_wheel('.')")
    done = run([sys.executable, "-c", call], checkout, PATH=str(tmp_path), JAVA_HOME=str(tmp_path))
    assert done.returncode != 0
    assert "No javac in JAVA_HOME or on PATH" in done.stderr and "Traceback" not in done.stderr
