"""Keeps the states of rows between the batches of a stream of changes: in files, which the checkpoint names."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..workers.local_directories import list_local_directories
from .rows.clearing import Clearings, list_members, read_clearing
from .rows.fold import Former
from .rows.row_history import RowState

WHOLE, PART = ".whole", ".part"
"""Suffixes of files: with the rows of all keys, and with those that a batch changed."""

_DIRECTORY = "pyspark-pravega-row-states"
"""As in RowFiles.java."""
_ABANDONED_SECONDS = 7 * 24 * 3600
"""The age at which a file must belong to a query that has ended."""
_LONGEST_CHAIN = 16
"""The files of a state at which it is written whole again."""
_FORMAT = 1
_NAME = re.compile(r"(\w+-(\d+))-(\d{9,})-\w+(\.whole|\.part)?")


def hash_values(*values: Any) -> str:
    """Return a hash of values that JSON can represent."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:24]


def make_state_name(query: str, group: int, number: int, *content: Any) -> str:
    """Return the name of a group's state after the batch with this number, from everything it depends on."""
    return f"{query}-{group}-{number:09}-{hash_values(content)}"


def is_state(file: str) -> bool:
    """Return whether a file holds a state, or a part of one."""
    return _NAME.fullmatch(file) is not None


def read_group(name: str) -> str:
    """Return the beginning that the names of a group's states share."""
    match = _NAME.fullmatch(name)
    assert match is not None, name
    return match[1]


def read_number(name: str) -> int:
    """Return the number of the batch that made a file, or its state."""
    match = _NAME.fullmatch(name)
    assert match is not None, name
    return int(match[3])


@dataclass(frozen=True)
class KnownRows:
    """The states of a query at a position, after `number` batches.

    `query` identifies the query's settings: with other settings, nothing is known. `states` are the names of each
    group's states, the newest first; `merged` says since which batch a group has been part of another one.
    """

    query: str
    number: int = 0
    states: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    merged: Mapping[int, int] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the text that the checkpoint keeps."""
        return json.dumps(
            {
                "format": _FORMAT,
                "query": self.query,
                "number": self.number,
                "states": [[group, list(names)] for group, names in sorted(self.states.items())],
                "merged": [[group, number] for group, number in sorted(self.merged.items())],
            }
        )

    @classmethod
    def from_json(cls, text: str | None, query: str) -> KnownRows | None:
        """Read what `to_json` wrote; None if that is of another query, or of an unknown format."""
        if text is None:
            return None
        value = json.loads(text)
        if value["format"] != _FORMAT or value["query"] != query:
            return None
        states = {group: tuple(names) for group, names in value["states"]}
        return cls(query, value["number"], states, dict(map(tuple, value["merged"])))

    def files(self, group: int, existing: Collection[str]) -> tuple[str, ...] | None:
        """Return the files of a group's state, the newest first; None if some are missing."""
        names: list[str] = []
        for name in self.states[group]:
            if name + WHOLE in existing:
                return (*names, name + WHOLE)
            if name + PART not in existing:
                return None
            names.append(name + PART)
        return None

    def obsolete(self, existing: Iterable[str], retain: int) -> list[str]:
        """Return the files that are not needed to repeat any of the last `retain` batches."""
        oldest = self.number - retain
        groups: dict[int, list[tuple[int, str]]] = {}
        gone = []
        for name in existing:
            if match := _NAME.fullmatch(name):
                groups.setdefault(int(match[2]), []).append((int(match[3]), name))
            elif (old := re.match(r"(\d{9})-.*\.known$", name)) and int(old[1]) < oldest:
                gone.append(name)
        current = {name for names in self.states.values() for name in names}
        for group, files in groups.items():
            bases = [number for number, name in files if name.endswith(WHOLE) and number <= oldest]
            if self.merged.get(group, oldest + 1) <= oldest:
                bases = [oldest + 1]
            for number, name in files:
                if number < max(bases, default=0) and name.rpartition(".")[0] not in current:
                    gone.append(name)
        return gone


def list_state_names(files: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the states to which files belong."""
    return tuple(name.rpartition(".")[0] for name in files)


class RowStates:
    """The states of one machine, by name, in a `directory`."""

    def __init__(self, directory: Path | None = None) -> None:
        """Use a directory, by default one among Spark's temporary files."""
        if directory is None:
            directory = list_local_directories()[0] / _DIRECTORY
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
            # Newer files extend the numbering of origins, and the newest file has all truncations.
            head = json.loads(streams[0].schema.metadata[b"head"])
            # A state of no rows has a batch without columns.
            entries = [map(pa.Table.from_batches, ([one] for one in each if one.num_columns)) for each in streams]
            yield read_head(head, entries)

    def has_to_be_extended(self, files: Sequence[str]) -> bool:
        """Return whether to extend these files, the newest first, by changes, instead of writing a state whole."""
        sizes = [(self.directory / name).stat().st_size for name in files]
        return 0 < len(sizes) < _LONGEST_CHAIN and sum(sizes[:-1]) <= sizes[-1] // 2

    @contextmanager
    def write(
        self, name: str, former: Sequence[str] = (), make: Callable[[pa.NativeFile], StateWriter] | None = None
    ) -> Iterator[StateWriter]:
        """Take the parts of a state, which exists once the body has succeeded. `make` makes the writer.

        Older files of its group are removed, except for the `former` ones.
        """
        self._remove_abandoned()
        number, path = tempfile.mkstemp(prefix=".", dir=self.directory)
        os.close(number)
        try:
            with pa.OSFile(path, "wb") as target:
                writer = (make or StateWriter)(target)
                yield writer
                writer.close()
            file = name + (WHOLE if writer.whole else PART)
            os.replace(path, self.directory / file)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(path)
            raise
        for other in self.directory.glob(f"{read_group(name)}-*"):
            # An older batch's task may still be running: it must not remove what a newer one needs.
            if read_number(other.name) <= read_number(name) and other.name not in (file, *former):
                other.unlink(missing_ok=True)

    def remove(self, file: str) -> None:
        """Remove a file, which need not be there."""
        (self.directory / file).unlink(missing_ok=True)

    def _remove_abandoned(self) -> None:
        oldest = time.time() - _ABANDONED_SECONDS
        for path in self.directory.iterdir():
            with suppress(FileNotFoundError):  # others do the same
                if path.stat().st_mtime < oldest:
                    path.unlink()


class StateWriter:
    """A file that takes a state part by part; the first part has its head. `whole`: it has the rows of all keys."""

    def __init__(self, file: pa.NativeFile) -> None:
        self.whole = True
        self._file = file
        self._head: dict[bytes, bytes] | None = None
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def add(self, state: RowState) -> None:
        if self._head is None:
            marks = sorted(map(list_members, state.cleared.marks), key=lambda mark: mark[1:])
            truncations = [*map(list_members, state.cleared.truncations)]
            head: dict[str, Any] = {"origins": list(state.origins), "cleared": truncations, "marks": marks}
            if state.events is not None:
                head["events"] = state.events
            self._head = {b"head": json.dumps(head).encode()}
        for file in state.entries:
            for entries in file:
                self._write(entries)

    def _describe(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of entries with the head."""
        assert self._head is not None
        return schema.with_metadata(self._head)

    def _write(self, entries: pa.Table) -> None:
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._file, self._describe(entries.schema))
        self._writer.write_table(entries)

    def close(self) -> None:
        """Write the end. A state of no rows has a file, too."""
        if self._writer is None:
            self._write(pa.table({}))
        assert self._writer is not None
        self._writer.close()


def read_head(head: Mapping[str, Any], entries: Former, *, scattered: bool = False) -> RowState:
    """Return the state with a head as StateWriter writes it."""
    cleared = Clearings()
    # Earlier releases did not keep marks.
    cleared.update(read_clearing(*members) for members in (*head["cleared"], *head.get("marks", ())))
    return RowState(head["origins"], cleared, entries, head.get("events"), scattered)
