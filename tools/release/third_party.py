"""Write native/third-party.txt: the licences of the Rust crates that wheels with native code contain.

As a program:

    PYTHONPATH=tools python tools/release/third_party.py > native/third-party.txt
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable

from crates import OWN, Crate, list_crates
from native_build import CRATE, TARGETS, find_cargo

BEGINNING = """\
pyspark-pravega is licensed under the Apache License 2.0, see LICENSE. Its wheels with native code, those for a
platform, contain compiled code of the Rust crates below, and of Rust's standard library (MIT OR Apache-2.0, Copyright
(c) The Rust Project Contributors, https://github.com/rust-lang/rust). The wheel for any platform contains none of it.

This file is made by `make native/third-party.txt`.
"""
LINE = "-" * 100


def write_text(crates: Iterable[Crate]) -> str:
    """Return the text: a list of the crates, and each licence text once, with the crates that it came with."""
    others = [crate for crate in crates if crate.name != OWN]
    texts: dict[str, list[str]] = defaultdict(list)
    for crate in others:
        for text in read_licences(crate):
            texts[text].append(crate.label)
    parts = [BEGINNING, *(f"{crate.label}: {crate.license}" for crate in others), ""]
    for text, names in sorted(texts.items(), key=lambda item: item[1]):
        parts += [LINE, f"{', '.join(names)}", LINE, "", text, ""]
    return "\n".join(parts)


def read_licences(crate: Crate) -> list[str]:
    """Return the texts of a crate's licences and notices. Ends the program if it has none.

    Of a choice between MIT and others, MIT is taken.
    """
    files = sorted(
        path
        for path in crate.folder.iterdir()
        if path.is_file() and path.name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"))
    )
    if " OR " in crate.license and (chosen := [path for path in files if "MIT" in path.name.upper()]):
        files = chosen
    if not files:
        sys.exit(f"The crate {crate.label} ({crate.license}) has no file with its licence in {crate.folder}.")
    return ["\n".join(line.rstrip() for line in file.read_text().strip().splitlines()) for file in files]


def main() -> None:
    """Print the text for all platforms that wheels are built for."""
    cargo = find_cargo()
    if cargo is None:
        sys.exit("The list of licences needs Rust's cargo, which knows the crates.")
    sys.stdout.write(write_text(list_crates(cargo, CRATE / "Cargo.toml", TARGETS.values())))


if __name__ == "__main__":
    main()
