"""Says in which files under the checkpoint the rows lie that a stream of changes knows at a position.

A group of segments that share keys has a state: a file with all its rows, and files with what some later batches
changed. The name of a file begins with its group and the number of its batch, and ends with a hash of what it depends
on: the file before it, the events of the batch, its truncations. A batch that is done again writes the same file again,
and one that differs, because offsets of the checkpoint were removed by hand, writes another.

The driver writes the list of these files beside them, as `KnownRows`, before the tasks of a batch begin. A task that
Spark did not run, because nobody wanted its rows, leaves its file out. So the list counts where its files are there.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

WHOLE, PART = ".whole", ".part"
"""Suffixes of files: with the rows of all keys, with those that a batch changed."""

_FORMAT = 1
_NAME = re.compile(r"(\w+-(\d+))-(\d{9})-\w+(\.whole|\.part)?")


def digest(*values: Any) -> str:
    """Return a hash of values that have JSON."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:24]


def state_name(query: str, group: int, number: int, *content: Any) -> str:
    """Name the state of a group after a batch of this number by all that it depends on."""
    return f"{query}-{group}-{number:09}-{digest(content)}"


def is_state(file: str) -> bool:
    """Tell whether a file has a state, or part of one."""
    return _NAME.fullmatch(file) is not None


def group_of(name: str) -> str:
    """Return the beginning that the names of a group's states share."""
    match = _NAME.fullmatch(name)
    assert match is not None, name
    return match[1]


def number_of(name: str) -> int:
    """Return the number of the batch that made a file, or its state."""
    match = _NAME.fullmatch(name)
    assert match is not None, name
    return int(match[3])


@dataclass(frozen=True)
class KnownRows:
    """The states of a query at a position, after `number` batches.

    `query` tells the query's settings: what was known with others does not count. `states` are the names of each
    group's states, the newest first; `merged` says since which batch a group is part of another one.
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
        """Read what `to_json` wrote; None where that is of another query, or of a format that is not known."""
        if text is None:
            return None
        value = json.loads(text)
        if value["format"] != _FORMAT or value["query"] != query:
            return None
        states = {group: tuple(names) for group, names in value["states"]}
        return cls(query, value["number"], states, dict(map(tuple, value["merged"])))

    def files(self, group: int, there: Collection[str]) -> tuple[str, ...] | None:
        """Return the files of a group's state, the newest first; None if some are not there any more."""
        found: list[str] = []
        for name in self.states[group]:
            if name + WHOLE in there:
                return (*found, name + WHOLE)
            if name + PART not in there:
                return None
            found.append(name + PART)
        return None

    def obsolete(self, there: Iterable[str], retain: int) -> list[str]:
        """Return the files that none of the last `retain` batches needs, to do it again from the state before it."""
        oldest = self.number - retain
        groups: dict[int, list[tuple[int, str]]] = {}
        gone = []
        for name in there:
            if match := _NAME.fullmatch(name):
                groups.setdefault(int(match[2]), []).append((int(match[3]), name))
            elif (known := re.match(r"(\d{9})-.*\.known$", name)) and int(known[1]) < oldest:
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


def trimmed(files: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the states that files are of."""
    return tuple(name.rpartition(".")[0] for name in files)
