"""A behaviour: statements in a namespace that is the current one, and what each of them must answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pytest

from tests.bad_input import JDBC_START, check_message, own_words
from tests.sql_clients import SqlClient, SqlError


@dataclass(frozen=True)
class Place:
    """A front end, and the namespace that is its current one."""

    sql: SqlClient
    catalog: str
    scope: str

    def written(self, text: str) -> str:
        """Put the names of this place into a text of the list."""
        whole = f"{self.catalog}.{self.scope}"
        return text.replace("{n}", whole).replace("{c}", self.catalog).replace("{s}", self.scope)


class Expected(Protocol):
    """What a statement must answer."""

    def check(self, place: Place, statement: str) -> None:
        """Run the statement and compare."""
        ...


@dataclass(frozen=True)
class Done:
    """It succeeds, whatever it shows."""

    def check(self, place: Place, statement: str) -> None:
        place.sql.run(statement)


@dataclass(frozen=True)
class Answer:
    """Exactly these rows, in this order: cells with ` | ` between them, NULL for none."""

    lines: tuple[str, ...]

    def check(self, place: Place, statement: str) -> None:
        found = place.sql.run(statement)
        if statement.startswith(("DESCRIBE", "SHOW")):
            # The shell shows no NULL there.
            found = [_shortened(row) for row in found]
        lines = [" | ".join(row) for row in found]
        assert lines == [place.written(line) for line in self.lines], "\n".join(lines)


def _shortened(row: Sequence[str]) -> tuple[str, ...]:
    cells = list(row)
    while cells and cells[-1] in ("", "NULL"):
        cells.pop()
    return tuple(cells)


@dataclass(frozen=True)
class Names:
    """Exactly these names, in any order. The shell lists names alone, the others have the namespace before them."""

    names: tuple[str, ...]

    def check(self, place: Place, statement: str) -> None:
        found = [row[0] if len(row) == 1 else row[1] for row in place.sql.run(statement)]
        assert sorted(found) == sorted(place.written(name) for name in self.names), found


@dataclass(frozen=True)
class Text:
    """Rows that have all of these words, and none of the others."""

    words: tuple[str, ...]
    without: tuple[str, ...] = ()

    def check(self, place: Place, statement: str) -> None:
        text = "\n".join("\t".join(row) for row in place.sql.run(statement))
        assert not [word for word in self.words if place.written(word) not in text], text
        assert not [word for word in self.without if place.written(word) in text], text


@dataclass(frozen=True)
class Refused:
    """An error of this condition whose message has these words, no stack trace and no secret."""

    condition: str
    words: tuple[str, ...]

    def check(self, place: Place, statement: str) -> None:
        with pytest.raises(SqlError) as caught:
            place.sql.run(statement)
        message = own_words(str(caught.value), place.sql.name)
        check_message(message, self.condition, *map(place.written, self.words))
        if self.condition.startswith("PRAVEGA_"):
            assert message.removeprefix(JDBC_START).startswith(f"[{self.condition}] "), message


@dataclass(frozen=True)
class Behaviour:
    """What users rely on, in a few statements."""

    name: str
    steps: tuple[tuple[str, Expected], ...]

    def check(self, place: Place) -> None:
        """Run its statements, each of which must answer what is expected."""
        for statement, expected in self.steps:
            expected.check(place, place.written(statement))


def behaviour(name: str, *parts: str | Expected) -> Behaviour:
    """A behaviour: its name, and statements, each with what it must answer after it unless that is nothing."""
    steps: list[tuple[str, Expected]] = []
    for part in parts:
        if isinstance(part, str):
            steps.append((part, Done()))
        else:
            steps[-1] = (steps[-1][0], part)
    return Behaviour(name, tuple(steps))


def all_with(behaviours: Sequence[Behaviour], *parts: str | Expected) -> tuple[Behaviour, ...]:
    """The behaviours, each with these statements, and what they must answer, after its own."""
    after = behaviour("after it", *parts).steps
    return tuple(Behaviour(each.name, (*each.steps, *after)) for each in behaviours)


def rows(*lines: str) -> Answer:
    """Exactly these rows."""
    return Answer(lines)


def names(*found: str) -> Names:
    """Exactly these names."""
    return Names(found)


def text(*words: str, without: tuple[str, ...] = ()) -> Text:
    """Rows with these words."""
    return Text(words, without)


def refused(condition: str, *words: str) -> Refused:
    """An error with these words."""
    return Refused(condition, words)
