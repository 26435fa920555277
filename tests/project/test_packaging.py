"""What is built and installed: complete, the same every time, and usable from nothing but a wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from pyspark_pravega import __version__
from pyspark_pravega.spark.home import JARS

ROOT = Path(__file__).resolve().parents[2]
CARGO = shutil.which("cargo")
CARGO_TARGET = str(ROOT / "build" / "native")
"""What cargo compiled for this checkout: only our own crate is compiled again for a copy."""
BACKEND = "import os, sys; sys.path.insert(0, 'tools'); import build_backend as b; print(b.{call})"


def tracked_files() -> list[Path]:
    """Files of the checkout, those not yet committed too, but nothing that was built."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True).stdout
    return [Path(name) for name in listed.split("\0") if name and os.path.lexists(ROOT / name)]


def run(command: list[str], cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, text=True, capture_output=True, env=environment or None)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout in which nothing was built yet."""
    copy = tmp_path_factory.mktemp("checkout")
    for path in tracked_files():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, copy / path, follow_symlinks=False)
    return copy


def sdist_command(out: Path) -> list[str]:
    return [sys.executable, "-c", BACKEND.format(call=f"build_sdist({str(out)!r})")]


@pytest.fixture(scope="module")
def unpacked(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source distribution."""
    out = tmp_path_factory.mktemp("sdist")
    done = run(sdist_command(out), checkout)
    assert done.returncode == 0, done.stderr
    with tarfile.open(next(out.glob("*.tar.gz"))) as archive:
        archive.extractall(out, filter="data")
    return next(path for path in out.iterdir() if path.is_dir())


QUICK_CARGO = """
[profile.release.package.pyspark-pravega-native]
opt-level = 0
codegen-units = 16
"""
"""Code that nobody runs need not be fast."""


def built_wheel(unpacked: Path, out: Path, **environment: str) -> Path:
    (unpacked / ".cargo").mkdir(exist_ok=True)
    (unpacked / ".cargo" / "config.toml").write_text(QUICK_CARGO)
    environment = {**os.environ, "CARGO_TARGET_DIR": CARGO_TARGET, **environment}
    done = run([sys.executable, "-c", BACKEND.format(call=f"build_wheel({str(out)!r})")], unpacked, **environment)
    assert done.returncode == 0, done.stderr
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def wheel(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel built from the source distribution, as an index's user would get it."""
    return built_wheel(unpacked, tmp_path_factory.mktemp("out"))


def test_every_folder_of_the_architecture_is_in_the_package() -> None:
    folders = {path.parts[0] for path in tracked_files() if path.name == "__init__.py"} - {"tests", "bench"}
    links = {path.name: os.readlink(ROOT / path) for path in tracked_files() if (ROOT / path).is_symlink()}
    assert links == {folder: f"../{folder}" for folder in folders - {"pyspark_pravega"}}


def test_each_file_is_in_the_source_distribution_once(unpacked: Path) -> None:
    files = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    modules = {path.as_posix() for path in tracked_files() if path.suffix in (".py", ".java", ".rs")}
    for kind in ("tests", "bench", "docs", "docker", "examples"):
        modules = {path for path in modules if not path.startswith(f"{kind}/")}
    modules = {path for path in modules if not path.startswith(("tools/release/", "tools/site/", "tools/count.py"))}
    moved = {path if path.startswith(("tools/", "pyspark_pravega/")) else f"pyspark_pravega/{path}" for path in modules}
    assert {path for path in files if path.endswith((".py", ".java", ".rs"))} == moved


def test_the_wheel_is_complete(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    if CARGO is None:
        assert wheel.name.endswith("-py3-none-any.whl")
    else:
        assert "-cp311-abi3-" in wheel.name and not wheel.name.endswith("-any.whl")
        assert "pyspark_pravega/native/_native.abi3.so" in names
    for needed in (
        "pyspark_pravega/spark/log4j2.properties",
        "pyspark_pravega/py.typed",
        "pyspark_pravega/browser/style.css",
        "pyspark_pravega/browser/templates/table.html",
        "pyspark_pravega/client/controller/controller_pb2.pyi",
        "pyspark_pravega/jvm/pyspark-pravega-adapter.jar",
        "pyspark_pravega/jvm/pyspark-pravega-adapter-4.1.jar",
        "pyspark_pravega/local/servers.lock",
        f"pyspark_pravega-{__version__}.dist-info/licenses/pyspark_pravega/native/third-party.txt",
        "pyspark_pravega/sql/options/__init__.py",
    ):
        assert needed in names, needed
    packages = {name.split("/")[0] for name in names}
    assert {name for name in packages if not name.endswith(".dist-info")} == {"pyspark_pravega"}


def test_a_wheel_without_native_code_and_for_one_spark(unpacked: Path, tmp_path: Path) -> None:
    library = unpacked / "pyspark_pravega" / "native" / "_native.abi3.so"
    library.write_bytes(b"of other sources")
    jar = unpacked / "pyspark_pravega" / "jvm" / "pyspark-pravega-adapter-4.1.jar"
    jar.write_bytes(b"of an earlier build")
    wheel = built_wheel(unpacked, tmp_path, PYSPARK_PRAVEGA_NATIVE="0", PYSPARK_PRAVEGA_OTHER_SPARKS="0")
    assert not library.exists() and not jar.exists()
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert "pyspark_pravega/native/__init__.py" in names
    assert not any(name.endswith(".so") for name in names)
    assert [name for name in names if name.endswith(".jar")] == ["pyspark_pravega/jvm/pyspark-pravega-adapter.jar"]


def test_the_same_sources_make_the_same_source_distribution(checkout: Path, tmp_path: Path) -> None:
    """Whatever the times and the modes of its files."""
    made = []
    for mask, day in ((0o022, 1_700_000_000), (0o077, 1_800_000_000)):
        os.utime(checkout / "README.md", (day, day))
        (checkout / "LICENSE").chmod(0o666 & ~mask)
        out = tmp_path / str(mask)
        out.mkdir()
        done = run(sdist_command(out), checkout)
        assert done.returncode == 0, done.stderr
        made.append(next(out.glob("*.tar.gz")).read_bytes())
    assert made[0] == made[1]


def test_a_platform_that_no_wheel_is_for(checkout: Path) -> None:
    environment = {**os.environ, "PYSPARK_PRAVEGA_PLATFORM": "win_amd64"}
    done = run([sys.executable, "tools/build_backend.py", "native"], checkout, **environment)
    assert done.returncode != 0
    assert "PYSPARK_PRAVEGA_PLATFORM is 'win_amd64', but wheels are built for manylinux_2_17_aarch64, " in done.stderr


@pytest.mark.skipif(CARGO is None, reason="cargo knows the crates")
def test_the_licences_of_what_is_compiled_in() -> None:
    environment = {**os.environ, "PYTHONPATH": "tools"}
    done = run([sys.executable, "tools/release/third_party.py"], ROOT, **environment)
    assert done.stdout == (ROOT / "native" / "third-party.txt").read_text(), done.stderr


def test_the_version_stands_in_one_place() -> None:
    assert "version" not in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert tomllib.loads((ROOT / "native" / "Cargo.toml").read_text())["package"]["version"] == "0.0.0"
    assert f" {__version__}\n" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.skipif(CARGO is None, reason="there is no cargo that could fail")
def test_rust_that_does_not_compile_is_an_error(checkout: Path) -> None:
    source = checkout / "native" / "src" / "lib.rs"
    sound = source.read_text()
    source.write_text(sound + "\nfn broken() -> u8 { true }\n")
    environment = {**os.environ, "CARGO_TARGET_DIR": CARGO_TARGET}
    done = run([sys.executable, "tools/build_backend.py", "native"], checkout, **environment)
    source.write_text(sound)
    assert done.returncode != 0
    assert "mismatched types" in done.stderr
    assert "PYSPARK_PRAVEGA_NATIVE=0" in done.stderr


@pytest.mark.parametrize(
    ("script", "says"),
    [("echo 'cargo 1.63.0'", "says: cargo 1.63.0"), ("echo 'no toolchain' >&2; exit 1", "says: no toolchain")],
    ids=["too old", "without a toolchain"],
)
def test_a_cargo_that_cannot_compile_it_is_as_good_as_none(
    script: str, says: str, checkout: Path, tmp_path: Path
) -> None:
    cargo = tmp_path / "cargo"
    cargo.write_text(f"#!/bin/sh\n{script}\n")
    cargo.chmod(0o755)
    (checkout / "native" / "_native.abi3.so").unlink(missing_ok=True)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = run([sys.executable, "tools/build_backend.py", "native"], checkout, **environment)
    assert done.returncode == 0 and "not built" in done.stdout
    assert f"The native decoder is left out: it takes Rust 1.85 or newer, and {cargo} {says}\n" in done.stderr


@pytest.mark.long
def test_the_same_sources_make_the_same_jar(wheel: Path, checkout: Path) -> None:
    done = run([sys.executable, "tools/build_backend.py", "jar"], checkout)
    assert done.stdout.strip().endswith("compiled"), done.stderr
    with zipfile.ZipFile(wheel) as archive:
        shipped = archive.read("pyspark_pravega/jvm/pyspark-pravega-adapter.jar")
    assert (checkout / "jvm" / "pyspark-pravega-adapter.jar").read_bytes() == shipped
    assert run([sys.executable, "tools/build_backend.py", "jar"], checkout).stdout.strip().endswith("up to date")


def test_a_wheel_has_a_jar_for_each_version_of_spark(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        served = {}
        for name in set(JARS.values()):
            with zipfile.ZipFile(BytesIO(archive.read(f"pyspark_pravega/jvm/{name}"))) as jar:
                manifest = jar.read("META-INF/MANIFEST.MF").decode()
            versions = next(line for line in manifest.splitlines() if line.startswith("Spark-Versions: "))
            served.update(dict.fromkeys(versions.split()[1:], name))
    assert served == JARS


def test_the_wheel_runs_with_the_pysparks_that_it_has_jars_for() -> None:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    oldest, newest = min(JARS), max(JARS).split(".")
    assert f"pyspark>={oldest},<{newest[0]}.{int(newest[1]) + 1}" in dependencies


def test_an_installed_wheel_works_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    done = run([*pip, "install", "--quiet", "--no-deps", str(wheel)], tmp_path)
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
