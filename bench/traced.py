"""Run the catalog service, or the daemon of Python workers, and write each call and server request into a file.

The lines of the file are JSON: the second in which the call ended (since 1970), the process, the logger, the text.
`make_traced_python` makes a program for a catalog's conf `python`. The daemon is a copy of this file on PYTHONPATH,
named by the conf `spark.python.daemon.module`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path

FILE = "PYSPARK_PRAVEGA_TRACE"
"""The environment variable that names the file."""


def make_traced_python(directory: Path) -> tuple[Path, Path]:
    """Make a program in a directory that runs the service as Python would; return it, and the file that it writes."""
    python, file = directory / "python", directory / "calls"
    python.write_text(f'#!/bin/sh\n{FILE}={file} exec {sys.executable} -P {Path(__file__).resolve()} "$@"\n')
    python.chmod(0o755)
    file.touch()
    return python, file


class _Trace(logging.Handler):
    """Appends a line for each record, whole, whichever process writes it."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def emit(self, record: logging.LogRecord) -> None:
        line = json.dumps([record.created, os.getpid(), record.name, record.getMessage()])
        os.write(self._file, f"{line}\n".encode())


def main() -> None:
    """Be the service if the arguments name its module, and the daemon otherwise."""
    logger = logging.getLogger("pyspark_pravega")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(_Trace(os.environ[FILE]))
    logger.propagate = False
    if "pyspark_pravega.catalog.service" in sys.argv:
        from pyspark_pravega.catalog import service

        service.main()
    else:
        from pyspark_pravega.datasource import worker_daemon

        worker_daemon.main()


if __name__ == "__main__":
    main()
