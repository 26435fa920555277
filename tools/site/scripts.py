"""Downloads the scripts of the site, and verifies them.

    python tools/site/scripts.py DIRECTORY

NPM_REGISTRY names another registry than npm's own.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import tarfile
import urllib.request
from pathlib import Path

LOCK = Path(__file__).with_name("scripts.lock")
REGISTRY = os.environ.get("NPM_REGISTRY", "https://registry.npmjs.org").rstrip("/")


def main(directory: Path) -> None:
    """Put all scripts of the lock file into a directory."""
    packages: dict[str, bytes] = {}
    for line in LOCK.read_text().splitlines():
        if line.startswith("#"):
            continue
        package, version, checksum, file, name = line.split("\t")
        url = f"{REGISTRY}/{package}/-/{package}-{version}.tgz"
        if url not in packages:
            packages[url] = download(url, checksum)
        with tarfile.open(fileobj=io.BytesIO(packages[url])) as archive:
            member = archive.extractfile(f"package/{file}")
            if member is None:
                sys.exit(f"{url} has no {file}")
            (directory / name).write_bytes(member.read())


def download(url: str, checksum: str) -> bytes:
    """Return a package whose checksum is the expected one."""
    with urllib.request.urlopen(url, timeout=120) as answer:
        content: bytes = answer.read()
    found = hashlib.sha256(content).hexdigest()
    if found != checksum:
        sys.exit(f"{url} has the SHA-256 {found}, but {LOCK.name} says {checksum}")
    return content


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    main(Path(sys.argv[1]))
