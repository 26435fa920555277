"""Compile the native decoder: for this machine, or for the platform of a wheel.

With PYSPARK_PRAVEGA_PLATFORM=manylinux_2_17_aarch64, or another name in `TARGETS`, cargo-zigbuild compiles it for that
platform, with Zig as compiler of C and linker. Zig knows the symbols of old versions of glibc, so that the library
runs on old systems, and knows the C libraries of other processors. No path of this machine is in such a library.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# A source distribution has the folders inside the package, a checkout has links there.
CRATE = ROOT / "pyspark_pravega" / "native"
LIBRARY = CRATE / "_native.abi3.so"
# As `native.SWITCH`: no native code where it is 0.
NATIVE_SWITCH = "PYSPARK_PRAVEGA_NATIVE"
PLATFORM_SWITCH = "PYSPARK_PRAVEGA_PLATFORM"
"""Environment variable: the platform tag of the wheel to build."""
TARGETS = {
    "manylinux_2_17_aarch64": "aarch64-unknown-linux-gnu",
    "manylinux_2_17_x86_64": "x86_64-unknown-linux-gnu",
    "musllinux_1_2_aarch64": "aarch64-unknown-linux-musl",
    "musllinux_1_2_x86_64": "x86_64-unknown-linux-musl",
}
"""Rust's names of the platforms that wheels are built for."""


def wheel_platform() -> str | None:
    """Return the platform that the environment names; None for this machine. Ends the build if it is unknown."""
    platform = os.environ.get(PLATFORM_SWITCH, "").strip()
    if platform and platform not in TARGETS:
        sys.exit(f"{PLATFORM_SWITCH} is {platform!r}, but wheels are built for {', '.join(TARGETS)} only.")
    return platform or None


OLDEST_RUST = (1, 85)


def compile_native() -> bool:
    """Compile `native/` into the library beside its sources; False when there is nothing to do.

    Without cargo there is nothing to do: everything works without the library. One of other sources is taken away.
    Ends the build with a sentence when there is a cargo and the sources do not compile.
    """
    platform = wheel_platform()
    sources = [CRATE / "Cargo.toml", CRATE / "Cargo.lock", *sorted((CRATE / "src").rglob("*.rs"))]
    digest = hashlib.sha256((platform or "").encode())
    for source in sources:
        digest.update(source.relative_to(CRATE).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    # The library contains the digest, so that a copied or half-written one does not count as up to date.
    if LIBRARY.is_file():
        if digest.hexdigest().encode() in LIBRARY.read_bytes():
            return False
        LIBRARY.unlink()
    cargo = find_cargo()
    if cargo is None:
        return False
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "build" / "native")
    # The stable interface of Python 3.11 and newer needs no particular interpreter at build time.
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": str(target),
        "NATIVE_SOURCES": digest.hexdigest(),
        "PYO3_NO_PYTHON": "1",
    }
    sys.stderr.write("Compiling the native decoder: the first time this takes some minutes\n")
    command = [cargo, "build", "--release", "--locked", "--quiet", "--manifest-path", str(CRATE / "Cargo.toml")]
    built = target / "release" / ("lib_native.dylib" if sys.platform == "darwin" else "lib_native.so")
    if platform is not None:
        command, built = _cross_compile(cargo, platform, target, environment)
    elif sys.platform == "darwin":
        # Python's own symbols come with the process that loads the library.
        _add_flags(environment, "-C link-arg=-undefined -C link-arg=dynamic_lookup")
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    if done.returncode != 0:
        sys.exit(
            f"{done.stdout}\nThe native decoder does not compile with {cargo}. It takes Rust 1.85 or newer and, the "
            f"first time, access to crates.io. Set {NATIVE_SWITCH}=0 to build without it; events are then decoded in "
            "Python."
        )
    sys.stderr.write(done.stdout)
    partial = LIBRARY.with_suffix(f".{os.getpid()}.partial")
    shutil.copyfile(built, partial)
    # Processes that have loaded the old library keep it.
    partial.replace(LIBRARY)
    return True


def find_cargo() -> str | None:
    """Return the path of a cargo that can compile the decoder, unless native code is switched off."""
    if os.environ.get(NATIVE_SWITCH, "").strip() == "0":
        return None
    cargo = shutil.which("cargo") or shutil.which("cargo", path=str(Path.home() / ".cargo" / "bin"))
    if cargo is None:
        return None
    # That of rustup may have no toolchain to run, that of a distribution may be old.
    done = subprocess.run([cargo, "--version"], text=True, capture_output=True)
    match = re.match(r"cargo (\d+)\.(\d+)", done.stdout)
    if match is None or (int(match[1]), int(match[2])) < OLDEST_RUST:
        says = done.stdout.strip() if match else (done.stderr.strip() or "no version").splitlines()[0]
        sys.stderr.write(f"The native decoder is left out: it takes Rust 1.85 or newer, and {cargo} says: {says}\n")
        return None
    return cargo


def has_standard_library(target: str) -> bool:
    """Whether the Rust that is in use has its standard library for a target."""
    command = [str(Path(find_cargo() or "cargo").with_name("rustc")), "--print", "target-libdir", "--target", target]
    done = subprocess.run(command, text=True, capture_output=True, cwd=CRATE)
    return done.returncode == 0 and Path(done.stdout.strip()).is_dir()


def _cross_compile(cargo: str, platform: str, folder: Path, environment: dict[str, str]) -> tuple[list[str], Path]:
    """Return the command for a platform, and the library that it makes; prepare its environment."""
    target = TARGETS[platform]
    if shutil.which("cargo-zigbuild") is None:
        sys.exit(f"{PLATFORM_SWITCH} needs cargo-zigbuild and Zig: pip install cargo-zigbuild ziglang.")
    if not has_standard_library(target):
        sys.exit(
            f"The wheel for {platform} needs Rust's standard library for {target}, and this machine has none: run "
            f"`rustup target add {target}`. Where it cannot be fetched, build on a machine of that platform."
        )
    crates = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo").resolve()
    _add_flags(environment, f"--remap-path-prefix={crates}=/cargo --remap-path-prefix={CRATE.resolve()}=/native")
    family, major, minor = platform.split("_")[:3]
    versioned = target
    if family == "manylinux":
        versioned = f"{target}.{major}.{minor}"
    else:
        # The library is loaded by a Python that brings musl.
        _add_flags(environment, "-C target-feature=-crt-static")
    command = [cargo, "zigbuild", "--release", "--locked", "--quiet", "--target", versioned]
    return [*command, "--manifest-path", str(CRATE / "Cargo.toml")], folder / target / "release" / "lib_native.so"


def _add_flags(environment: dict[str, str], flags: str) -> None:
    environment["RUSTFLAGS"] = f"{environment.get('RUSTFLAGS', '')} {flags}".strip()
