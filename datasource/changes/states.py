"""Keeps the states of rows between the batches of a stream of changes, in temporary files of executors.

A file is worth a second look at all earlier events, no more: whoever misses it reads them again. It lies with Spark's
own temporary files, which Spark deletes. Of each group of segments the last two states are kept, so that a batch may be
done again.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..local_directories import local_directories
from .rows.entries import Truncate, Truncates
from .rows.history import RowState

_DIRECTORY = "pyspark-pravega-row-states"
_ABANDONED_SECONDS = 7 * 24 * 3600
"""After this, a file belongs to a query that has ended."""


class RowStates:
    """The states of one machine, by name, in a `directory`."""

    def __init__(self, directory: Path | None = None) -> None:
        """Take the directory, by default one among Spark's temporary files."""
        if directory is None:
            directory = local_directories()[0] / f"{_DIRECTORY}-{os.getuid()}"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory = directory

    @contextmanager
    def read(self, name: str) -> Iterator[RowState | None]:
        """Open a state; None if there is none, or not any more."""
        try:
            file = pa.memory_map(str(self.directory / name))
        except FileNotFoundError:
            yield None
            return
        with file, pa.ipc.open_stream(file) as stream:
            head = json.loads(stream.schema.metadata[b"head"])
            yield RowState(head["origins"], _cleared(head), (pa.Table.from_batches([batch]) for batch in stream))

    @contextmanager
    def write(self, name: str, before: str | None) -> Iterator[Callable[[RowState], None]]:
        """Take the parts of a state, which is there once all is well, and keep no other of its group but `before`.

        Names are those of groups with something behind a hyphen.
        """
        self._remove_abandoned()
        number, path = tempfile.mkstemp(prefix=".", dir=self.directory)
        os.close(number)
        try:
            with _Parts(path) as parts:
                yield parts.add
            os.replace(path, self.directory / name)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(path)
            raise
        for group in {each.rpartition("-")[0] for each in (name, before or name)}:
            for other in self.directory.glob(f"{group}-*"):
                if other.name not in (name, before):
                    other.unlink(missing_ok=True)

    def _remove_abandoned(self) -> None:
        oldest = time.time() - _ABANDONED_SECONDS
        for path in self.directory.iterdir():
            with suppress(FileNotFoundError):  # others do the same
                if path.stat().st_mtime < oldest:
                    path.unlink()


class _Parts:
    """A file that takes a state part by part; the first one tells its head."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._head: dict[bytes, bytes] | None = None
        self._file: pa.OSFile | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def add(self, state: RowState) -> None:
        if self._head is None:
            truncates = [[origin, segment, astuple(each)] for (origin, segment), each in state.cleared.last.items()]
            head = {"origins": list(state.origins), "cleared": truncates}
            self._head = {b"head": json.dumps(head).encode()}
        for entries in state.entries:
            self._open(entries.schema).write_table(entries)

    def _open(self, schema: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
        assert self._head is not None
        if self._writer is None:
            self._file = pa.OSFile(self._path, "wb")
            self._writer = pa.ipc.new_stream(self._file, schema.with_metadata(self._head))
        return self._writer

    def __enter__(self) -> _Parts:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if error[0] is None:
                self._open(pa.schema([]))
            if self._writer is not None:
                self._writer.close()
        finally:
            if self._file is not None:
                self._file.close()


def _cleared(head: Any) -> Truncates:
    cleared = Truncates()
    for origin, segment, (position, *rest) in head["cleared"]:
        cleared.add(origin, segment, Truncate(tuple(position), *rest))
    return cleared
