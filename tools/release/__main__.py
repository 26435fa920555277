"""Make a release in dist/: what it has is built twice in clean places, compared, checked, installed and tried.

    make release
    make release RELEASE_ARGS="--platform manylinux_2_17_x86_64 --once --python 3.11"

Nothing is published. docs/releasing.md says how that is done, and by whom.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from bill_of_materials import write_bill
from checks import check_archives, write_checksums
from clean_build import PLATFORMS, Source, build_all, export_commit, read_version
from differences import compare
from trial import find_pythons, try_release

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "release"


def main() -> None:
    """Make the release that the arguments describe."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--platform", action="append", choices=PLATFORMS, help="build wheels only for these")
    parser.add_argument("--once", action="store_true", help="do not build a second time to compare")
    parser.add_argument("--python", action="append", help="try it only with these, such as 3.12; 'none' for no trial")
    parser.add_argument("--uncommitted", action="store_true", help="leave out changes that are not committed")
    arguments = parser.parse_args()
    os.umask(0o022)  # modes of files are in archives
    platforms = arguments.platform or [*PLATFORMS]
    pythons = [] if arguments.python == ["none"] else find_pythons(arguments.python)
    source = export_commit(ROOT, WORK / "source", with_changes=arguments.uncommitted)
    version = read_version(source.folder)
    _say(f"pyspark-pravega {version} of commit {source.commit}")
    built = _build(source, platforms, WORK / "first")
    if not arguments.once:
        # Another directory, and nothing that the first build has compiled.
        again = _build(export_commit(ROOT, WORK / "source-again", with_changes=True), platforms, WORK / "second")
        differences = compare(built, again)
        if differences:
            sys.exit("Two builds of the same commit differ:\n" + "\n".join(differences))
        _say(f"built twice, byte for byte the same: {', '.join(path.name for path in built)}")
    check_archives(built, version)
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    for path in built:
        shutil.copyfile(path, dist / path.name)
    write_bill(source, dist / f"pyspark_pravega-{version}.cdx.json", built)
    write_checksums(dist)
    for python in pythons:
        _say(f"trying it with Python {python.version}")
        try_release(python, dist, source.folder, WORK / f"trial-{python.version}", first=python == pythons[-1])
    _say(f"done: {dist}")


def _build(source: Source, platforms: list[str], folder: Path) -> list[Path]:
    _say(f"building in {folder}")
    return build_all(source, platforms, folder)


def _say(text: str) -> None:
    print(f"release: {text}", flush=True)


if __name__ == "__main__":
    main()
