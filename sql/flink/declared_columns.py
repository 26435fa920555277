"""Parse the parts of CREATE TABLE in its parentheses: columns of all kinds, keys, watermarks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sqlglot import Token, TokenType

from .expressions.types import translate_column_type
from .report import Findings, Untranslatable
from .statements import FlinkStatement, find_closing, slice_source, split_list


@dataclass(frozen=True)
class PhysicalColumn:
    """A column of the events, with its type in Spark."""

    name: str
    type: str
    required: bool = False
    comment: str | None = None
    source: str = ""
    """The type in Flink."""
    millis: str | None = None
    """The type that queries see if the column is stored as milliseconds since 1970; else None."""

    @property
    def shown_type(self) -> str:
        """Return the type that queries see."""
        return self.millis or self.type


@dataclass(frozen=True)
class ComputedColumn:
    """A column that is an expression, in Flink SQL."""

    name: str
    expression: str


@dataclass(frozen=True)
class MetadataColumn:
    """A column with metadata of the event; `key` is its key in Flink."""

    name: str
    key: str


@dataclass
class Columns:
    """The declared columns of a table, in order, with its key and watermark."""

    all: list[PhysicalColumn | ComputedColumn | MetadataColumn] = field(default_factory=list)
    primary_key: tuple[str, ...] = ()
    watermark: tuple[str, str] | None = None
    """Column and expression, in Flink SQL."""

    @property
    def physical(self) -> list[PhysicalColumn]:
        """Return the columns of the events."""
        return [column for column in self.all if isinstance(column, PhysicalColumn)]


def parse_columns(statement: FlinkStatement, tokens: Sequence[Token], findings: Findings) -> Columns:
    """Parse the list of a CREATE TABLE. Raises Untranslatable, which names the part that has no equivalent."""
    columns = Columns()
    first = statement.tokens[0]
    for part in split_list(tokens):
        words = [token.text.upper() if token.token_type is not TokenType.IDENTIFIER else "" for token in part]
        if words[0] == "WATERMARK" and words[1:2] == ["FOR"]:
            split = words.index("AS")
            column = ".".join(token.text for token in part[2:split] if token.token_type is not TokenType.DOT)
            columns.watermark = (column, slice_source(statement.text, first, part[split + 1 :]))
        elif part[0].token_type is TokenType.PRIMARY_KEY or words[0] == "CONSTRAINT":
            columns.primary_key = _parse_key(part)
        else:
            columns.all.append(_parse_column(statement, part, words, findings, columns))
    names = [column.name for column in columns.all]
    for name in names:
        alike = [other for other in names if other.lower() == name.lower()]
        if len(alike) > 1:
            raise Untranslatable(
                f"The columns {' and '.join(alike)} differ only in case; Spark takes them for the same column"
            )
    return columns


def _parse_key(part: Sequence[Token]) -> tuple[str, ...]:
    opening = next(number for number, token in enumerate(part) if token.token_type is TokenType.L_PAREN)
    inside = part[opening + 1 : find_closing(part, opening)]
    return tuple(token.text for token in inside if token.token_type is not TokenType.COMMA)


def _parse_column(
    statement: FlinkStatement, part: list[Token], words: list[str], findings: Findings, columns: Columns
) -> PhysicalColumn | ComputedColumn | MetadataColumn:
    first, name = statement.tokens[0], part[0].text
    comment = None
    if len(part) > 3 and words[-2] == "COMMENT":
        comment, part, words = part[-1].text, part[:-2], words[:-2]
    if words[1:2] == ["AS"]:
        return ComputedColumn(name, slice_source(statement.text, first, part[2:]))
    if "METADATA" in words[1:]:
        at = words.index("METADATA", 1)
        key = part[at + 2].text if words[at + 1 : at + 2] == ["FROM"] else name
        if "VIRTUAL" not in words[at:]:
            findings.note(f"{name}: Pravega's metadata is read-only, as if it were VIRTUAL")
        return MetadataColumn(name, key)
    end = next((number for number, token in enumerate(part) if token.token_type is TokenType.PRIMARY_KEY), None)
    if end is not None:
        part, words, columns.primary_key = part[:end], words[:end], (name,)
    required = words[-2:] == ["NOT", "NULL"]
    if required:
        part, words = part[:-2], words[:-2]
    if words[-1] == "NULL" and len(words) > 2:
        part = part[:-1]
    text = slice_source(statement.text, first, part[1:])
    return PhysicalColumn(name, translate_column_type(text, name, findings), required, comment, text)


def adapt_to_bare_avro(column: PhysicalColumn) -> PhysicalColumn:
    """Return a column as Flink writes it in Avro without a header, where a reader does not learn the writer's schema.

    Flink has timestamps in milliseconds there, and tables have them in microseconds. Raises Untranslatable.
    """
    text = column.source.upper()
    if re.search(r"\bTIME\b", text):
        raise Untranslatable(f"Column {column.name}: Flink's Avro stores TIME as a number of milliseconds; declare INT")
    if "NOT NULL" in text:
        raise Untranslatable(f"Column {column.name}: NOT NULL inside a type has no equivalent in Avro without a header")
    if re.search(r"TIMESTAMP(_LTZ)?\s*\(\s*[0-3]\s*\)", text):
        if not text.startswith("TIMESTAMP"):
            raise Untranslatable(
                f"Column {column.name}: Flink's Avro stores its timestamps in milliseconds; declare BIGINT"
            )
        return replace(column, type="BIGINT", millis=column.type)
    return column
