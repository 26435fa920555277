"""Files that only their owner may read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Write a file with mode 0600, in one step: a reader sees the old content or all of the new."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def private_directory(path: Path) -> Path:
    """Create a directory with mode 0700, parents as usual; an existing one is left as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    return path
