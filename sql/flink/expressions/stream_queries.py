"""Find what Spark refuses in a query of streams that writes to a Pravega table, which takes only final rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from ..dialect import SPARK_WINDOWS, Relation
from ..report import Findings, Untranslatable

_AGGREGATES = frozenset(
    """ANY_VALUE APPROX_COUNT_DISTINCT ARRAY_AGG AVG BIT_AND BIT_OR BIT_XOR COLLECT COUNT FIRST_VALUE JSON_ARRAYAGG
    JSON_OBJECTAGG LAST_VALUE LISTAGG MAX MIN STDDEV_POP STDDEV_SAMP SUM VARIANCE VAR_POP VAR_SAMP""".split()
)
_NO_FINAL_ROWS = (
    "Flink updates the results of a group without a window; a Pravega table takes only final results, and Spark "
    "refuses such a stream without a time window"
)


def check_stream(query: exp.Expr, findings: Findings) -> None:
    """Add findings for what Spark refuses in a query of streams. Raises Untranslatable for what has no other form."""
    _Streams(query, findings).check()


class _Streams:
    def __init__(self, query: exp.Expr, findings: Findings) -> None:
        self._query = query
        self._findings = findings
        self._ctes: set[str] = set()
        ctes = list(query.find_all(exp.CTE))
        for _ in ctes:  # one may read another
            self._ctes |= {cte.alias_or_name.lower() for cte in ctes if self._is_of_stream(cte.this)}
        self._times = {name for relation in query.find_all(Relation) for name in relation.args.get("times") or ()}

    def check(self) -> None:
        for clause in self._query.find_all(exp.Order, exp.Limit, exp.Fetch, exp.Offset):
            if isinstance(clause.parent, exp.Query) and self._is_of_stream(clause.parent):
                raise Untranslatable("Spark neither sorts nor limits a stream")
        for select in self._query.find_all(exp.Select):
            self._check_select(select)
        for operation in self._query.find_all(exp.SetOperation):
            self._check_set_operation(operation)
        for inner in self._query.find_all(exp.Query):
            outside = (exp.From, exp.Join, exp.CTE, exp.SetOperation, exp.Subquery)
            if inner.parent is not None and not isinstance(inner.parent, outside) and self._is_of_stream(inner):
                self._findings.check(
                    "IN, EXISTS or a scalar subquery of a stream: Spark refuses most of these if the inner query reads "
                    "the stream. Write a JOIN with a condition on the event times of both"
                )

    def _is_of_stream(self, node: exp.Expr) -> bool:
        """Return whether a part of the query reads a stream."""
        return any(relation.args.get("streaming") for relation in node.find_all(Relation)) or any(
            not table.db and table.name.lower() in self._ctes for table in node.find_all(exp.Table)
        )

    def _check_select(self, select: exp.Select) -> None:
        first = select.args.get("from_") or select.args.get("from")
        joins = select.args.get("joins") or ()
        if not any(self._is_of_stream(source) for source in (first, *joins) if source is not None):
            return
        if select.find(exp.Window):
            raise Untranslatable(
                "OVER of a stream has no equivalent in Spark: use time windows, or a stateful operator in Python"
            )
        if any(not isinstance(distinct.parent, exp.Select) for distinct in select.find_all(exp.Distinct)):
            raise Untranslatable("Spark does not count distinct values of a stream: use APPROX_COUNT_DISTINCT")
        group = select.args.get("group")
        windows = group.find_all(exp.Anonymous) if group is not None else ()
        windowed = any(call.name in SPARK_WINDOWS for call in windows)
        if select.args.get("distinct") or (not windowed and (group is not None or _has_aggregate(select))):
            self._findings.check(_NO_FINAL_ROWS)
        if first is not None:
            where = select.args.get("where")
            self._check_joins(first.this, joins, list(_split_conjuncts(where.this)) if where is not None else [])

    def _check_joins(self, first: exp.Expr, joins: Sequence[exp.Expr], where: list[exp.Expr]) -> None:
        streaming = self._is_of_stream(first)
        for join in (*(first.args.get("joins") or ()), *joins):
            side, kind = (str(join.args.get(key) or "").upper() for key in ("side", "kind"))
            right = self._is_of_stream(join.this)
            on = [*_split_conjuncts(join.args.get("on"))]
            if streaming and right:
                self._check_stream_join(join, outer=bool(side) or kind in ("SEMI", "ANTI"), on=on, where=where)
            elif (side in ("FULL", "LEFT") and right) or (side in ("FULL", "RIGHT") and streaming):
                self._findings.check(
                    f"{side} JOIN of a table and a stream: Spark refuses it if all rows of the table are kept"
                )
            streaming |= right
            self._check_joins(join.this, (), where)

    def _check_stream_join(self, join: exp.Expr, *, outer: bool, on: list[exp.Expr], where: list[exp.Expr]) -> None:
        conditions = on if outer else [*on, *where]
        natural = join.args.get("using") or str(join.args.get("method") or "").upper() == "NATURAL"
        if not natural and not any(
            isinstance(condition, exp.EQ) and _can_relate_two(condition) for condition in conditions
        ):
            self._findings.check("Spark refuses a JOIN of two streams without an equality of columns")
        if outer and not self._has_bound_event_times(on):
            self._findings.check(
                "An outer JOIN of two streams without an interval: Spark refuses it without a condition on the event "
                "times of both, such as a.ts BETWEEN b.ts - INTERVAL '1' HOUR AND b.ts"
            )

    def _has_bound_event_times(self, conditions: list[exp.Expr]) -> bool:
        """Return whether conditions bind the event times of two streams to each other."""
        kinds = (exp.EQ, exp.Between, exp.GT, exp.GTE, exp.LT, exp.LTE)
        compared = (condition for condition in conditions if isinstance(condition, kinds))
        bound = [condition for condition in compared if self._is_about_event_times(condition)]
        return any(isinstance(condition, exp.EQ | exp.Between) for condition in bound) or len(bound) > 1

    def _is_about_event_times(self, condition: exp.Expr) -> bool:
        columns = {(column.table.lower(), column.name.lower()) for column in condition.find_all(exp.Column)}
        return len({table for table, _ in columns}) > 1 and all(name in self._times for _, name in columns)

    def _check_set_operation(self, operation: exp.SetOperation) -> None:
        left, right = self._is_of_stream(operation.this), self._is_of_stream(operation.expression)
        if not left and not right:
            return
        if not isinstance(operation, exp.Union) or operation.args.get("distinct"):
            name = type(operation).__name__.upper()
            self._findings.check(f"{name} of a stream: Spark refuses all but UNION ALL; use a JOIN, or a time window")
        elif left != right:
            self._findings.check("UNION ALL of a stream and a table: Spark refuses it; write two INSERTs")


def _has_aggregate(select: exp.Select) -> bool:
    inside = select.walk(prune=lambda node: isinstance(node, exp.Query) and node is not select)
    return any(isinstance(node, exp.Anonymous) and node.name.upper() in _AGGREGATES for node in inside)


def _split_conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    if condition is not None:
        yield from condition.flatten() if isinstance(condition, exp.And) else (condition.unnest(),)


def _can_relate_two(condition: exp.Expr) -> bool:
    """Return whether a condition can relate two relations. Columns without a table's name may be of any."""
    sides = [{column.table.lower() for column in side.find_all(exp.Column)} for side in condition.iter_expressions()]
    return all(sides) and (any("" in side for side in sides) or sides[0] != sides[1])
