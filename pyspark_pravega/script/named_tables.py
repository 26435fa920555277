"""The tables of a catalog that a script reads or writes and that are not there, asked for without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType, tokenize

from pyspark_pravega.catalog import connect
from pyspark_pravega.errors import PravegaError, StreamNotFoundError
from pyspark_pravega.sql.identifiers import hyphenated, quote_all
from pyspark_pravega.sql.script import Statement

_BEFORE_A_NAME = frozenset("FROM JOIN INTO STREAM OVERWRITE TABLE UPDATE USING VIEW EXISTS".split())
"""Words that stand before the name of a table."""
_MAKES = ("CREATE", "REPLACE")
_MAY_BE_MISSING = ("DROP",)
"""First words of statements that need no table: DROP says itself what is not there, or has IF EXISTS."""


@dataclass(frozen=True)
class MissingTable:
    """A table that is not there, and the line of the statement that needs it."""

    line: int
    text: str


def missing_tables(script: Sequence[Statement], catalog: str, settings: Mapping[str, str]) -> list[MissingTable]:
    """Return the tables of the catalog that are named in full, are not there and are made by no statement before.

    `settings` are those of the catalog's conf. Raises the errors of servers that cannot be asked.
    """
    wanted = list(_wanted(script, catalog))
    if not wanted:
        return []
    found = []
    keywords = {key.replace("-", "_").replace(".", "_"): text for key, text in settings.items()}
    with connect(catalog, **keywords) as known:
        for line, namespace, table in wanted:
            name = quote_all((catalog, namespace, table))
            if known.table_exists(name):
                continue
            try:
                known.load_table(name)
            except StreamNotFoundError as error:
                found.append(MissingTable(line, error.for_user()))
            except PravegaError:
                continue  # a view, or a table that cannot be read: it is there
    return found


def _wanted(script: Sequence[Statement], catalog: str) -> Iterator[tuple[int, str, str]]:
    made: set[tuple[str, str]] = set()
    for statement in script:
        first = statement.words[0]
        named = dict.fromkeys(_named(tokenize(statement.text, read="spark"), catalog))
        for place, (namespace, table) in enumerate(named):
            key = hyphenated(namespace), hyphenated(table)
            if first in _MAKES and place == 0:
                made.add(key)
            elif first not in _MAY_BE_MISSING and key not in made:
                made.add(key)  # it is told once
                yield statement.line, namespace, table


def _named(tokens: Sequence[Token], catalog: str) -> Iterator[tuple[str, str]]:
    """Yield the namespaces and tables that stand, with the catalog's name before them, where tables do."""
    for place, token in enumerate(tokens[1:], 1):
        before = tokens[place - 1]
        if before.token_type is TokenType.L_PAREN and place > 1:
            before = tokens[place - 2]  # FROM STREAM(pravega.iot.sensor)
        if token.text.lower() != catalog.lower() or before.text.upper() not in _BEFORE_A_NAME:
            continue
        parts = tokens[place : place + 5]
        dots = [each.token_type for each in parts[1::2]]
        if len(parts) == 5 and dots == [TokenType.DOT, TokenType.DOT]:
            yield parts[2].text, parts[4].text
