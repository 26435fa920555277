"""Split SQL scripts into statements, each with its place in the script.

sqlglot's tokenizer splits the text; it knows Spark's strings, names and comments. Only Spark knows what a statement
means: its grammar has STREAM and WATERMARK, which sqlglot's parser does not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sqlglot
from sqlglot import Dialect, Token, TokenType
from sqlglot.errors import TokenError

from pyspark_pravega.errors import InvalidScriptError

_TEXTS = (TokenType.STRING, TokenType.RAW_STRING)
_LONGEST = 70
_SESSION_ONLY = ("SET", "RESET", "USE")
_LASTING = frozenset(("INSERT", "MERGE", "UPDATE", "DELETE", "CALL", "TRUNCATE", "ALTER", "DROP"))


@dataclass(frozen=True)
class Statement:
    """One statement of a script, with the line and column of its first character, both counted from 1."""

    text: str
    line: int
    column: int
    words: tuple[str, ...]
    """Its tokens in upper case; strings, and names in backticks, are empty."""
    summary: str
    """Its beginning on one line: up to the first string, which may be a secret."""

    def in_place(self) -> str:
        """Return the text after as many empty lines as the script has before it, so that Spark counts its lines."""
        return "\n" * (self.line - 1) + " " * (self.column - 1) + self.text

    @property
    def is_setting(self) -> bool:
        """Return whether the statement sets or resets a conf of the session."""
        return self.words[0] in ("SET", "RESET")

    @property
    def is_of_session(self) -> bool:
        """Return whether later statements need this one in each session: settings, USE, temporary views."""
        return self.words[0] in (*_SESSION_ONLY, "DECLARE", "ADD") or bool({"TEMP", "TEMPORARY"} & {*self.words[1:5]})

    @property
    def lasts(self) -> bool:
        """Return whether the statement, run twice, does twice what lasts. A CREATE finds its table there, or fails."""
        first, *others = self.words
        return first in _LASTING or (first in ("WITH", "FROM") and not _LASTING.isdisjoint(others))

    @property
    def changes_session_only(self) -> bool:
        """Return whether the statement neither reads nor writes data: settings, USE, definitions of views."""
        return self.words[0] in _SESSION_ONLY or (self.words[0] in ("CREATE", "DROP") and "VIEW" in self.words[1:6])


def split_script(script: str) -> list[Statement]:
    """Split a script at its semicolons. Raises InvalidScriptError for text that cannot be split."""
    return [_build_statement(script, tokens) for *tokens, _ in split_tokens(script, "spark") if tokens]


def split_tokens(script: str, dialect: str | type[Dialect]) -> Iterator[list[Token]]:
    """Yield the tokens of each statement, the last of which is a semicolon, at the end even if the script lacks it.

    Raises InvalidScriptError for text that cannot be split; the message has nothing of the text, which may be secret.
    """
    try:
        tokens = sqlglot.tokenize(script, read=dialect)
    except TokenError as error:  # whose cause names only the place
        raise InvalidScriptError(
            f"The script cannot be split into statements: {error.__cause__ or 'something is not closed'}. Look for a "
            "quote or a comment that is not closed."
        ) from None
    statement: list[Token] = []
    for token in (*tokens, Token(TokenType.SEMICOLON, ";", start=len(script), end=len(script))):
        statement.append(token)
        if token.token_type is TokenType.SEMICOLON:
            yield statement
            statement = []


def _build_statement(script: str, tokens: list[Token]) -> Statement:
    start, end = tokens[0].start, tokens[-1].end + 1
    line_start = script.rfind("\n", 0, start) + 1
    words = tuple("" if token.token_type in (*_TEXTS, TokenType.IDENTIFIER) else token.text.upper() for token in tokens)
    line = script.count("\n", 0, start) + 1
    if words[0] == "BEGIN" or words[1:3] == (":", "BEGIN"):
        raise InvalidScriptError(
            f"Line {line}: a script must not have BEGIN ... END blocks, because their semicolons would end the "
            "statement. Write the statements of the block one after the other, or run it in the SQL shell."
        )
    shown_end = next((token.start for token in tokens if token.token_type in _TEXTS), end)
    shown = " ".join(script[start:shown_end].split())
    summary = shown if shown_end == end and len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
    return Statement(script[start:end], line, start - line_start + 1, words, summary)
