"""Split a Flink script into statements, with their tokens and the comments before them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType

from pyspark_pravega.errors import InvalidScriptError

from ..script import split_tokens
from .dialect import Flink

TEXTS = (TokenType.STRING, TokenType.UNICODE_STRING, TokenType.NATIONAL_STRING, TokenType.HEX_STRING)


@dataclass(frozen=True)
class FlinkStatement:
    """One statement: its text, the line of its first word counted from 1, and the comments before it as they are."""

    text: str
    line: int
    comments: str
    tokens: tuple[Token, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """Return its tokens in upper case; strings, and names in backticks, are empty."""
        quoted = (*TEXTS, TokenType.IDENTIFIER)
        return tuple("" if token.token_type in quoted else token.text.upper() for token in self.tokens)


class Cursor:
    """Reads a statement word by word."""

    def __init__(self, statement: FlinkStatement, at: int = 0) -> None:
        """Take the statement; its first `at` tokens have been read."""
        self.statement = statement
        self.tokens = statement.tokens
        self.words = statement.words
        self.at = at

    @property
    def ended(self) -> bool:
        """Return whether everything has been read."""
        return self.at >= len(self.tokens)

    def take(self, *words: str) -> bool:
        """Skip these words if they come next, and return whether they did."""
        if self.words[self.at : self.at + len(words)] != words:
            return False
        self.at += len(words)
        return True

    def name(self) -> list[str]:
        """Read a name of one or more parts. Raises InvalidScriptError."""
        if self.ended:
            raise InvalidScriptError("A name is missing at the end.")
        parts = [self.text()]
        while self.take("."):
            parts.append(self.text())
        return parts

    def text(self) -> str:
        """Read the next token as it is."""
        self.at += 1
        return self.tokens[self.at - 1].text

    def brackets(self) -> tuple[Token, ...]:
        """Read the tokens in parentheses; none if no parenthesis comes next."""
        if self.ended or self.tokens[self.at].token_type is not TokenType.L_PAREN:
            return ()
        end = find_closing(self.tokens, self.at)
        inside = self.tokens[self.at + 1 : end]
        self.at = end + 1
        return inside

    def rest(self) -> str:
        """Return the text that has not been read."""
        return "" if self.ended else self.statement.text[self.tokens[self.at].start - self.tokens[0].start :]


def split_flink_script(script: str) -> tuple[list[FlinkStatement], str]:
    """Split a script at semicolons into statements and the comments after them. Raises InvalidScriptError."""
    statements: list[FlinkStatement] = []
    behind, comments = 0, ""
    for *tokens, semicolon in split_tokens(script, Flink):
        start = (tokens or [semicolon])[0].start
        comments = script[behind:start].strip()
        if tokens:
            line = script.count("\n", 0, start) + 1
            statements.append(FlinkStatement(script[start : semicolon.start].rstrip(), line, comments, tuple(tokens)))
            comments = ""
        behind = semicolon.end + 1
    return statements, comments


def split_list(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield the parts between the commas of a list; commas in brackets do not count."""
    depth = 0
    part: list[Token] = []
    for token in tokens:
        if token.token_type is TokenType.COMMA and depth == 0:
            yield part
            part = []
            continue
        if token.token_type in (TokenType.L_PAREN, TokenType.LT, TokenType.L_BRACKET):
            depth += 1
        elif token.token_type in (TokenType.R_PAREN, TokenType.GT, TokenType.R_BRACKET):
            depth -= 1
        part.append(token)
    if part:
        yield part


def find_closing(tokens: Sequence[Token], opening: int) -> int:
    """Return the place of the parenthesis that closes the one at `opening`. Raises InvalidScriptError."""
    depth = 0
    for index in range(opening, len(tokens)):
        if tokens[index].token_type is TokenType.L_PAREN:
            depth += 1
        elif tokens[index].token_type is TokenType.R_PAREN:
            depth -= 1
            if depth == 0:
                return index
    raise InvalidScriptError("A parenthesis is not closed.")


def slice_source(text: str, first: Token, tokens: Sequence[Token]) -> str:
    """Return the text of tokens of a statement whose first token is `first`."""
    return text[tokens[0].start - first.start : tokens[-1].end + 1 - first.start] if tokens else ""


def read_options(tokens: Sequence[Token]) -> dict[str, str]:
    """Return the options of `'key' = 'value', ...`. Raises InvalidScriptError for anything else."""
    options: dict[str, str] = {}
    for part in split_list(tokens):
        kinds = [token.token_type for token in part]
        # Flink's own documentation sometimes leaves out a comma: 'a' = 'b' 'c' = 'd'.
        while kinds[:3] == [TokenType.STRING, TokenType.EQ, TokenType.STRING]:
            options[part[0].text.strip()] = part[2].text
            part, kinds = part[3:], kinds[3:]
        if part:
            # A text in the wrong place may be a password.
            word = f"'{part[0].text}'" if part[0].token_type not in TEXTS else "a text"
            raise InvalidScriptError(f"Options are written 'key' = 'value'; {word} is not expected here.")
    return options
