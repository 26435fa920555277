"""Parse the parts of Flink SQL for which sqlglot has no dialect into its trees, and print these as Spark SQL."""

from __future__ import annotations

from itertools import takewhile
from typing import Any, ClassVar

from sqlglot import TokenType, exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.spark import Spark

WINDOW_FUNCTIONS = ("TUMBLE", "HOP", "SESSION", "CUMULATE")
SPARK_WINDOWS = ("window", "session_window")


class WindowTable(exp.Expression):
    """`TABLE(TUMBLE(TABLE source, DESCRIPTOR(column), interval, ...))` of a FROM clause."""

    arg_types: ClassVar[dict[str, bool]] = {
        "kind": True,
        "this": True,
        "column": True,
        "intervals": True,
        "keys": False,
        "alias": False,
        "joins": False,
    }


class Relation(exp.Table):
    """A relation that is already Spark SQL: `this` is a variable, which is printed unchanged.

    `streaming` says whether it is a stream, `times` are the names of its event time, in lower case.
    """

    arg_types: ClassVar[dict[str, bool]] = {**exp.Table.arg_types, "streaming": False, "times": False}


class Flink(Dialect):
    """Flink SQL: names in backticks, `''` in strings, no escapes, arrays from 1."""

    INDEX_OFFSET = 1

    class Tokenizer(tokens.Tokenizer):
        """Flink's words, and comments of all kinds; a hint is a comment that begins with `+`."""

        IDENTIFIERS: ClassVar[list[Any]] = ["`"]
        QUOTES: ClassVar[list[Any]] = ["'"]
        STRING_ESCAPES: ClassVar[list[str]] = ["'"]
        UNICODE_STRINGS: ClassVar[list[Any]] = [("U&'", "'"), ("u&'", "'")]
        COMMANDS: ClassVar[set[TokenType]] = set()
        HEX_STRINGS: ClassVar[list[Any]] = [("X'", "'"), ("x'", "'")]
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **{word: kind for word, kind in tokens.Tokenizer.KEYWORDS.items() if word not in ("/*+", "SESSION")},
            "BYTES": TokenType.VARBINARY,
            "ROW": TokenType.STRUCT,
            "STRING": TokenType.TEXT,
            "TIMESTAMP": TokenType.TIMESTAMPNTZ,
            "TIMESTAMP_LTZ": TokenType.TIMESTAMPLTZ,
        }

    class Parser(parser.Parser):
        """Reads queries. Functions are kept as they are written; one table says what they are in Spark."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parse
            for name, parse in parser.Parser.FUNCTION_PARSERS.items()
            if name in ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "OVERLAY", "POSITION", "CEIL", "FLOOR")
        }

        def _parse_table(self, *args: Any, **options: Any) -> Any:
            if self._match_text_seq("TABLE", "("):
                return self._parse_window_table(bool(options.get("joins")))
            return super()._parse_table(*args, **options)

        def _parse_window_table(self, joins: bool) -> exp.Expr:
            kind = self._curr.text.upper() if self._curr else ""
            if kind not in WINDOW_FUNCTIONS:
                self.raise_error(
                    f"TABLE({kind or '...'}) is not one of the window functions {', '.join(WINDOW_FUNCTIONS)}"
                )
            self._advance()
            self._match_l_paren()
            self._match_text_seq("DATA", "=", ">") or self._match_text_seq("DATA", "=>")
            self._match_text_seq("TABLE")
            source = super()._parse_table()
            if not self._match_text_seq("PARTITION", "BY") and not self._match(TokenType.PARTITION_BY):
                self._match(TokenType.COMMA)
            arguments = self._parse_csv(self._parse_named_argument)
            keys = list(takewhile(lambda argument: isinstance(argument, exp.Column), arguments))
            others = arguments[len(keys) :]
            described = [argument for argument in others if isinstance(argument, exp.Anonymous)]
            self._match_r_paren()
            self._match_r_paren()
            if source is None or not described:
                self.raise_error(f"{kind} needs a table and DESCRIPTOR(column)")
            intervals = [argument for argument in others if argument not in described]
            column = described[0].expressions[0]
            window = WindowTable(kind=kind, this=source, column=column, keys=keys, intervals=intervals)
            alias = self._parse_table_alias(alias_tokens=self.TABLE_ALIAS_TOKENS)
            if alias:
                window.set("alias", alias)
            if joins:
                window.set("joins", list(self._parse_joins()))
            return window

        def _parse_named_argument(self) -> Any:
            if self._next and self._next.token_type in (TokenType.FARROW, TokenType.ARROW):
                self._advance(2)
            return self._parse_disjunction()


def build_call(name: str, *arguments: exp.Expr | str | int) -> exp.Expr:
    """Return the call of a function of Spark; a text or a number stands for itself."""
    return exp.Anonymous(this=name, expressions=[exp.convert(argument) for argument in arguments])


class SparkOutput(Spark):
    """Spark SQL with relations that are printed unchanged."""

    class Generator(Spark.Generator):  # type: ignore[misc,valid-type]
        """Prints trees. Functions keep the names that the table of functions gave them."""

        TYPE_MAPPING: ClassVar[dict[Any, str]] = {
            **Spark.Generator.TYPE_MAPPING,
            exp.DataType.Type.TIMESTAMPNTZ: "TIMESTAMP_NTZ",
            exp.DataType.Type.TIMESTAMPLTZ: "TIMESTAMP",
            exp.DataType.Type.TIME: "TIME",
            exp.DataType.Type.VARBINARY: "BINARY",
            exp.DataType.Type.BINARY: "BINARY",
        }

        def datatype_sql(self, expression: exp.DataType) -> str:
            """Print a type. Spark's BINARY has no length."""
            if expression.this in (exp.DataType.Type.BINARY, exp.DataType.Type.VARBINARY):
                return "BINARY"
            return str(super().datatype_sql(expression))

        TRANSFORMS: ClassVar[dict[Any, Any]] = {**Spark.Generator.TRANSFORMS, Relation: Spark.Generator.table_sql}
