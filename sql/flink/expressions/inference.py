"""Infer the types of columns and expressions, as far as a script declares them.

A type is the first word of Spark's name for it (`TIMESTAMP` is Flink's TIMESTAMP_LTZ), or None if it is unknown.
The nodes of a query are marked with their types before it is changed, and keep the marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from sqlglot import exp

from ..dialect import SparkOutput, WindowTable

Output = list[tuple[str, str | None]]
"""Names in lower case and types, in order."""
_Sources = dict[str, Output | None]

WHOLE = frozenset(("TINYINT", "SMALLINT", "INT", "BIGINT"))
TEXT = frozenset(("STRING", "CHAR", "VARCHAR"))
ZONED, LOCAL, NULL = "TIMESTAMP", "TIMESTAMP_NTZ", "NULL"
_FRACTIONS = frozenset(("FLOAT", "DOUBLE"))
_NUMBERS = WHOLE | _FRACTIONS | {"DECIMAL"}
_KEY = "type in the script"

_RESULTS: dict[str, str] = {
    name: result
    for result, names in {
        "STRING": """ARRAY_JOIN BIN BTRIM CHR CONCAT CONCAT_WS DATE_FORMAT DECODE FROM_BASE64 FROM_UNIXTIME HEX INITCAP
        JSON_VALUE LEFT LISTAGG LOWER LPAD LTRIM MD5 PARSE_URL REGEXP_EXTRACT REGEXP_REPLACE REPEAT REPLACE REVERSE
        RIGHT RPAD RTRIM SHA1 SHA224 SHA256 SHA384 SHA512 SPLIT_INDEX SUBSTR SUBSTRING TO_BASE64 UPPER UUID""",
        "BIGINT": """APPROX_COUNT_DISTINCT ARRAY_POSITION ASCII CARDINALITY CHARACTER_LENGTH CHAR_LENGTH COUNT
        DAYOFMONTH DAYOFWEEK DAYOFYEAR DENSE_RANK GROUPING GROUPING_ID HOUR INSTR INT LENGTH LOCATE MINUTE MONTH NTILE
        QUARTER RAND_INTEGER RANK ROW_NUMBER SECOND TIMESTAMPDIFF UNIX_TIMESTAMP WEEK YEAR""",
        "BOOLEAN": "ARRAY_CONTAINS REGEXP",
        "DATE": "CURRENT_DATE TO_DATE",
        ZONED: "CURRENT_ROW_TIMESTAMP CURRENT_TIMESTAMP NOW PROCTIME TO_TIMESTAMP_LTZ",
        LOCAL: "HOP_END HOP_START LOCALTIMESTAMP SESSION_END SESSION_START TO_TIMESTAMP TUMBLE_END TUMBLE_START",
    }.items()
    for name in names.split()
}
_OF_THE_FIRST = frozenset(
    "ABS FIRST_VALUE HOP_ROWTIME LAG LAST_VALUE LEAD MAX MIN NULLIF ROUND SESSION_ROWTIME SUM TUMBLE_ROWTIME".split()
)
_OF_ALL = frozenset("COALESCE GREATEST IFNULL LEAST MOD NVL".split())
_NODES: dict[str, tuple[type[exp.Expr], ...]] = {
    "BIGINT": (exp.Extract,),
    "BOOLEAN": (exp.Boolean, exp.Connector, exp.Exists, exp.Not, exp.Predicate),
    "DATE": (exp.CurrentDate,),
    "INT": (exp.StrPosition,),
    "INTERVAL": (exp.Interval,),
    "STRING": (exp.DPipe, exp.Substring, exp.Trim),
    LOCAL: (exp.Localtimestamp,),
    NULL: (exp.Null,),
    ZONED: (exp.CurrentTimestamp,),
}


def strip_type_arguments(spark: str) -> str:
    """Return a type without its arguments in brackets."""
    return re.split(r"[\s(<]", spark.strip())[0].upper()


def infer(node: exp.Expr) -> str | None:
    """Return the type of an expression in Flink, or None."""
    if (inferred := node.meta.get(_KEY)) is not None:
        return str(inferred)
    if isinstance(node, exp.Cast):
        return strip_type_arguments(node.to.sql(dialect=SparkOutput))
    if isinstance(node, exp.Literal):
        if node.is_string or node.is_int:
            return "STRING" if node.is_string else "INT"
        return "DOUBLE" if "E" in node.name.upper() else "DECIMAL"
    if isinstance(node, exp.Paren | exp.Neg | exp.Filter | exp.Window | exp.WithinGroup | exp.Floor | exp.Ceil):
        return infer(node.this)
    if isinstance(node, exp.Distinct) and len(node.expressions) == 1:
        return infer(node.expressions[0])
    if isinstance(node, exp.Case):
        values = [*(branch.args["true"] for branch in node.args["ifs"]), node.args.get("default")]
        return _find_common_type([value for value in values if value is not None])
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Mod):
        return _infer_arithmetic(node)
    if isinstance(node, exp.Anonymous):
        return _infer_call(node.name.upper(), node.expressions)
    return next((kind for kind, nodes in _NODES.items() if isinstance(node, nodes)), None)


def remember(node: exp.Expr, kind: str | None) -> None:
    """Mark a node with its type in Flink."""
    if kind is not None:
        node.meta[_KEY] = kind


def _find_common_type(nodes: Sequence[exp.Expr]) -> str | None:
    kinds = {infer(node) for node in nodes} - {NULL}
    if len(kinds) == 1:
        return kinds.pop()
    if not kinds or None in kinds:
        return None
    if kinds <= TEXT:
        return "STRING"
    if kinds <= _NUMBERS:
        return "BIGINT" if kinds <= WHOLE else "DOUBLE" if kinds & _FRACTIONS else "DECIMAL"
    return None


def _infer_arithmetic(node: exp.Binary) -> str | None:
    left, right = infer(node.this), infer(node.expression)
    if "INTERVAL" in (left, right):
        other = right if left == "INTERVAL" else left
        return other if other in (ZONED, LOCAL) else None
    return _find_common_type([node.this, node.expression]) if left in _NUMBERS and right in _NUMBERS else None


def _infer_call(name: str, arguments: Sequence[exp.Expr]) -> str | None:
    if name in _RESULTS:
        return _RESULTS[name]
    if name in _OF_THE_FIRST and arguments:
        return infer(arguments[0])
    if name in _OF_ALL:
        return _find_common_type(arguments)
    if name == "IF" and len(arguments) == 3:
        return _find_common_type(arguments[1:])
    if name == "TIMESTAMPADD" and len(arguments) == 3:
        kind = infer(arguments[2])
        return kind if kind in (ZONED, LOCAL) else None
    return None


class TypesOfQuery:
    """Marks the columns of a query with their types. `columns_of` returns a table's columns, None if unknown."""

    def __init__(self, columns_of: Callable[[exp.Table], Output | None]) -> None:
        self._columns_of = columns_of
        self._done: set[int] = set()

    def infer_types(self, query: exp.Expr) -> Output:
        """Mark all columns of a query with their types; return the columns of its result."""
        return self._type_query(query, {}, {})

    def _type_query(self, query: exp.Expr, ctes: Mapping[str, Output], outer: _Sources) -> Output:
        self._done.add(id(query))
        ctes = dict(ctes)
        for cte in query.ctes if isinstance(query, exp.Query) else ():
            ctes[cte.alias_or_name.lower()] = _rename(self._type_query(cte.this, ctes, outer), cte)
        if isinstance(query, exp.Select):
            return self._type_select(query, ctes, outer)
        if isinstance(query, exp.SetOperation):
            left, right = (self._type_query(side, ctes, outer) for side in (query.this, query.expression))
            kinds = [kind for _, kind in right] if len(left) == len(right) else [None] * len(left)
            return [(name, kind if kind == other else None) for (name, kind), other in zip(left, kinds, strict=True)]
        if isinstance(query, exp.Subquery):
            return _rename(self._type_query(query.this, ctes, outer), query)
        if isinstance(query, exp.Values) and query.expressions:
            row = query.expressions[0]
            return _rename([("", infer(value)) for value in getattr(row, "expressions", [])], query)
        return []

    def _type_select(self, select: exp.Select, ctes: Mapping[str, Output], outer: _Sources) -> Output:
        sources: _Sources = {}
        for first in (select.args.get("from_") or select.args.get("from"), *(select.args.get("joins") or ())):
            if first is not None:
                self._add_source(first.this, sources, ctes, outer)
        for node in select.walk(prune=lambda inner: isinstance(inner, exp.Query) and inner is not select):
            if isinstance(node, exp.Column):
                remember(node, _find_column_type(node, sources, outer))
            elif isinstance(node, exp.Query) and id(node) not in self._done:
                self._type_query(node, ctes, {**outer, **sources})
        output: Output = []
        for expression in select.expressions:
            if isinstance(expression, exp.Star) or (
                isinstance(expression, exp.Column) and isinstance(expression.this, exp.Star)
            ):
                source = expression.table.lower() if isinstance(expression, exp.Column) else None
                for alias, columns in sources.items():
                    output += (columns or []) if source in (None, alias) else []
            else:
                output.append((expression.alias_or_name.lower(), infer(expression.unalias())))
        return output

    def _add_source(self, node: exp.Expr, sources: _Sources, ctes: Mapping[str, Output], outer: _Sources) -> None:
        for join in node.args.get("joins") or ():
            self._add_source(join.this, sources, ctes, outer)
        if isinstance(node, exp.Table):
            own = None if node.db else ctes.get(node.name.lower())
            columns = own if own is not None else self._columns_of(node)
        elif isinstance(node, WindowTable):
            inner: _Sources = {}
            self._add_source(node.this, inner, ctes, outer)
            columns = next(iter(inner.values()))
            if columns is not None:
                time = _find_column_type(node.args["column"], inner, {})
                columns = [*columns, ("window_start", LOCAL), ("window_end", LOCAL), ("window_time", time)]
        elif isinstance(node, exp.Subquery) and not isinstance(node.this, exp.Query):
            self._add_source(node.this, sources, ctes, outer)  # a join in parentheses
            return
        elif isinstance(node, exp.Query | exp.Values):
            columns = self._type_query(node, ctes, outer)
        else:
            columns = [(name, None) for name in _list_alias_columns(node)] or None
        sources[node.alias_or_name.lower()] = _rename(columns, node) if columns is not None else None


def _rename(columns: Output, node: exp.Expr) -> Output:
    """Return columns under the names that an alias such as `AS t (a, b)` gives them."""
    names = list(_list_alias_columns(node))
    if len(names) != len(columns):
        return columns
    return [(name, kind) for name, (_, kind) in zip(names, columns, strict=True)]


def _list_alias_columns(node: exp.Expr) -> Iterator[str]:
    alias = node.args.get("alias")
    if isinstance(alias, exp.TableAlias):
        yield from (column.name.lower() for column in alias.args.get("columns") or ())


def _find_column_type(column: exp.Expr, sources: _Sources, outer: _Sources) -> str | None:
    name = column.name.lower()
    table = column.table.lower() if isinstance(column, exp.Column) else ""
    for places in (sources, outer):
        if table:
            if table in places:
                return dict(places[table] or ()).get(name)
            continue
        kinds = [kind for columns in places.values() for other, kind in columns or () if other == name]
        if kinds:
            return kinds[0] if len(set(kinds)) == 1 else None
        if None in places.values():
            return None
    return None
