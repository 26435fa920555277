"""Keeps the states of rows between the batches of a stream of changes, in files of the executor.

Files are those that the checkpoint has too: the adapter brings the ones that a task needs, and takes away the one that
it writes (`RowFiles.java`). They lie with Spark's own temporary files, which Spark deletes. A file is whole, or has the
rows that a batch changed. What it is made of decides its name (`known_rows`), so one that is there already says the
same.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..local_directories import local_directories
from .known_rows import PART, WHOLE, group_of, number_of
from .rows.clearing import Clearings, Truncation
from .rows.history import RowState
from .rows.names import Moment
from .rows.snapshots import Mark

_DIRECTORY = "pyspark-pravega-row-states"
"""As in RowFiles.java."""
_ABANDONED_SECONDS = 7 * 24 * 3600
"""After this, a file belongs to a query that has ended."""
_LONGEST_CHAIN = 16
"""Files of a state, from which on it is written whole again."""


class RowStates:
    """The states of one machine, by name, in a `directory`."""

    def __init__(self, directory: Path | None = None) -> None:
        """Take the directory, by default one among Spark's temporary files."""
        if directory is None:
            directory = local_directories()[0] / _DIRECTORY
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.directory = directory

    @contextmanager
    def read(self, files: Sequence[str]) -> Iterator[RowState]:
        """Open a state that consists of some files, the newest first. Raises FileNotFoundError."""
        with ExitStack() as opened:
            streams = []
            for name in files:
                file = opened.enter_context(pa.memory_map(str(self.directory / name)))
                streams.append(opened.enter_context(pa.ipc.open_stream(file)))
            # Origins are numbered on from file to file, and the newest file has the truncations of all.
            head = json.loads(streams[0].schema.metadata[b"head"])
            yield RowState(head["origins"], _cleared(head), [_tables(stream) for stream in streams])

    def grows(self, files: Sequence[str]) -> bool:
        """Tell whether a state is better kept as changes to these files, the newest first, than written whole."""
        sizes = [(self.directory / name).stat().st_size for name in files]
        return 0 < len(sizes) < _LONGEST_CHAIN and sum(sizes[:-1]) <= sizes[-1] // 2

    @contextmanager
    def write(self, name: str, former: Sequence[str] = ()) -> Iterator[StateWriter]:
        """Take the parts of a state, which is there once all is well.

        Older files of its group are removed, but for the `former` ones.
        """
        self._remove_abandoned()
        number, path = tempfile.mkstemp(prefix=".", dir=self.directory)
        os.close(number)
        try:
            with StateWriter(path) as writer:
                yield writer
            file = name + (WHOLE if writer.whole else PART)
            os.replace(path, self.directory / file)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(path)
            raise
        for other in self.directory.glob(f"{group_of(name)}-*"):
            # A task of an older batch that is still running removes nothing that a newer one needs.
            if number_of(other.name) <= number_of(name) and other.name not in (file, *former):
                other.unlink(missing_ok=True)

    def _remove_abandoned(self) -> None:
        oldest = time.time() - _ABANDONED_SECONDS
        for path in self.directory.iterdir():
            with suppress(FileNotFoundError):  # others do the same
                if path.stat().st_mtime < oldest:
                    path.unlink()


class StateWriter:
    """A file that takes a state part by part; the first one tells its head. `whole`: it has the rows of all keys."""

    def __init__(self, path: str) -> None:
        self.whole = True
        self._path = path
        self._head: dict[bytes, bytes] | None = None
        self._file: pa.OSFile | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def add(self, state: RowState) -> None:
        """Write a part."""
        if self._head is None:
            truncates = [[each.origin, each.segment, astuple(each.moment)] for each in state.cleared]
            marks = [
                [each.origin, each.segment, astuple(each.moment), each.ends, each.table] for each in state.cleared.marks
            ]
            marks.sort(key=lambda each: each[1:])
            head = {"origins": list(state.origins), "cleared": truncates, "marks": marks}
            self._head = {b"head": json.dumps(head).encode()}
        for file in state.entries:
            for entries in file:
                self._open(entries.schema).write_table(entries)

    def _open(self, schema: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
        assert self._head is not None
        if self._writer is None:
            self._file = pa.OSFile(self._path, "wb")
            self._writer = pa.ipc.new_stream(self._file, schema.with_metadata(self._head))
        return self._writer

    def __enter__(self) -> StateWriter:
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


def _tables(stream: pa.RecordBatchReader) -> Iterator[pa.Table]:
    for batch in stream:
        if batch.num_columns:  # a state of no rows has none
            yield pa.Table.from_batches([batch])


def _cleared(head: Any) -> Clearings:
    cleared = Clearings()
    for origin, segment, (position, *rest) in head["cleared"]:
        cleared.add(Truncation(origin, segment, Moment(tuple(position), *rest)))
    for origin, segment, (position, *rest), *more in head.get("marks", ()):  # which earlier releases did not keep
        cleared.add(Mark(origin, segment, Moment(tuple(position), *rest), *more))
    return cleared
