"""What a server said since it was started: for error messages, and to notice a lost port."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_TAIL_LINES = 30
_TAIL_BYTES = 64_000
_PORT_IN_USE = re.compile(rb"Address already in use|java\.net\.BindException|Failed to bind to")
_STACK_FRAME = re.compile(r"\s+(at |\.\.\. \d+)")


class ServerLog:
    """The files a server writes to, from their present ends on."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._offsets = {file: file.stat().st_size if file.exists() else 0 for file in files}

    def tells_port_in_use(self) -> bool:
        return any(_PORT_IN_USE.search(self._read(file)) for file in self._offsets)

    def tail(self) -> str:
        """The last lines, without stack frames, and where to read more."""
        parts = []
        for file in self._offsets:
            lines = self._read(file)[-_TAIL_BYTES:].decode("utf-8", "replace").splitlines()
            kept = [line for line in lines if line and not _STACK_FRAME.match(line)][-_TAIL_LINES:]
            parts.append(f"--- end of {file}:\n" + "\n".join(kept or ["(empty)"]))
        return "\n".join(parts)

    def _read(self, file: Path) -> bytes:
        try:
            with file.open("rb") as opened:
                size = opened.seek(0, 2)
                # Smaller than before: the log was rolled over, hence all of it is new.
                start = self._offsets[file] if size >= self._offsets[file] else 0
                opened.seek(start)
                return opened.read()
        except FileNotFoundError:
            return b""
