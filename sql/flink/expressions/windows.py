"""Translate windows: Flink's table functions and group functions into Spark's `window` and `session_window`."""

from __future__ import annotations

from sqlglot import exp

from ..dialect import SPARK_WINDOWS, WindowTable, build_call
from ..report import Findings, Untranslatable
from .zones import Zone, check_window

_BOUNDS = {"START": "start", "END": "end"}
COLUMNS = ("window_start", "window_end", "window_time")
_BEFORE_END = exp.Interval(this=exp.Literal.string("0.001"), unit=exp.var("SECOND"))


def convert_length(interval: exp.Expr) -> exp.Expr:
    """Return an interval as the text that Spark's windows accept: `10 MINUTE`."""
    if not isinstance(interval, exp.Interval) or not isinstance(interval.this, exp.Literal):
        raise Untranslatable(f"The length of a window must be an INTERVAL literal, but is {interval.sql()}")
    unit = interval.args.get("unit")
    if unit is None or isinstance(unit, exp.IntervalSpan) or unit.name.upper().rstrip("S") in ("MONTH", "YEAR"):
        raise Untranslatable("The length of a window must be in WEEK, DAY, HOUR, MINUTE or SECOND")
    return exp.Literal.string(f"{interval.this.name} {unit.name.upper()}")


def build_window(kind: str, column: exp.Expr, intervals: list[exp.Expr], zone: Zone, findings: Findings) -> exp.Expr:
    """Return Spark's window of a time column, from the lengths in Flink's order."""
    if kind == "CUMULATE":
        raise Untranslatable("CUMULATE has no equivalent: Spark has tumbling, hopping and session windows")
    lengths = [convert_length(interval) for interval in intervals]
    most = {"TUMBLE": 2, "HOP": 3, "SESSION": 1}[kind]
    if not (2 if kind == "HOP" else 1) <= len(lengths) <= most:
        raise Untranslatable(f"{kind} cannot have {len(lengths)} intervals")
    check_window(kind, column, intervals, zone, findings)
    if kind == "SESSION":
        return build_call("session_window", column, *lengths)
    if kind == "HOP":
        slide, size, *offset = lengths
        return build_call("window", column, size, slide, *offset)
    size, *offset = lengths
    return build_call("window", column, size, *([size.copy(), *offset] if offset else []))


def build_bound(whole: exp.Expr, which: str) -> exp.Expr:
    """Return `start` or `end` of a window, or `time`: a millisecond before its end, as in Flink."""
    bound = exp.Dot(this=whole.copy(), expression=exp.to_identifier("end" if which == "time" else which))
    return exp.Sub(this=bound, expression=_BEFORE_END.copy()) if which == "time" else bound


def translate_group_windows(select: exp.Select, findings: Findings, zone: Zone) -> None:
    """Translate TUMBLE, HOP and SESSION in GROUP BY, and functions such as TUMBLE_START, in place."""
    for call in list(select.find_all(exp.Anonymous)):
        kind, _, suffix = call.name.upper().partition("_")
        if kind not in ("TUMBLE", "HOP", "SESSION") or call.find_ancestor(exp.Select) is not select:
            continue
        if suffix and suffix not in (*_BOUNDS, "ROWTIME", "PROCTIME"):
            continue
        if suffix == "PROCTIME":
            raise Untranslatable(f"{call.name}: Spark's windows have no processing time")
        whole = build_window(kind, call.expressions[0], call.expressions[1:], zone, findings)
        if not suffix:
            call.replace(whole)
            continue
        _replace(call, build_bound(whole, _BOUNDS.get(suffix, "time")))


def translate_window_tables(select: exp.Select, findings: Findings, zone: Zone, streaming: bool) -> None:
    """Translate a select over a window table function, in place: grouped, or row by row."""
    tables = [table for table in select.find_all(WindowTable) if table.find_ancestor(exp.Select) is select]
    if not tables:
        return
    group = select.args.get("group")
    grouped = group is not None and any(column.name.lower() in COLUMNS for column in group.find_all(exp.Column))
    if group is not None and grouped and len(tables) == 1 and not select.args.get("joins"):
        _translate_grouped(select, tables[0], group, zone, findings)
        return
    for table in tables:
        if table.args["kind"] == "SESSION":
            raise Untranslatable("SESSION without GROUP BY window_start, window_end has no equivalent")
        if streaming and group is not None:
            raise Untranslatable(
                "A stream of windows must be grouped by window_start and window_end, in the SELECT of the window "
                "function"
            )
        _translate_row_by_row(table, zone, findings)


def note_first_windows(query: exp.Expr, findings: Findings) -> None:
    """Note which windows of a stream have no rows in Spark."""
    calls = (call for group in query.find_all(exp.Group) for call in group.find_all(exp.Anonymous))
    if any(call.name in SPARK_WINDOWS for call in calls):
        findings.note(
            "Windows that end at or before 1970-01-01 00:00:00 UTC are left out: Spark's watermark begins there"
        )


def _translate_grouped(select: exp.Select, table: WindowTable, group: exp.Expr, zone: Zone, findings: Findings) -> None:
    alias = table.args.get("alias")
    column = table.args["column"].copy()
    whole = build_window(table.args["kind"], column, table.args["intervals"], zone, findings)
    in_group = {column.name.lower() for column in group.find_all(exp.Column)}
    if missing := [key.sql() for key in table.args.get("keys") or () if key.name.lower() not in in_group]:
        raise Untranslatable(f"The session is partitioned by {', '.join(missing)}, but the SELECT does not group by it")
    for node in list(select.find_all(exp.Column)):
        name = node.name.lower()
        if name not in COLUMNS or node.find_ancestor(exp.Select) is not select:
            continue
        if node.find_ancestor(exp.Group) is not None:
            if name == "window_start" or (name == "window_end" and "window_start" not in in_group):
                node.replace(whole.copy())
            else:
                _remove(node)
            continue
        _replace(node, build_bound(whole, name.removeprefix("window_")), name)
    source = table.this
    if alias is not None:
        source.set("alias", alias)
    if table.args.get("joins"):
        source.set("joins", table.args["joins"])
    table.replace(source)


def _translate_row_by_row(table: WindowTable, zone: Zone, findings: Findings) -> None:
    whole = build_window(table.args["kind"], table.args["column"].copy(), table.args["intervals"], zone, findings)
    inner = exp.select("*", exp.alias_(whole, "window")).from_(table.this)
    columns = [exp.alias_(build_bound(exp.column("window"), name.removeprefix("window_")), name) for name in COLUMNS]
    star = exp.Star(except_=[exp.to_identifier("window")])
    outer = exp.select(star, *columns).from_(inner.subquery("rows"))
    alias = table.args.get("alias")
    result = exp.Subquery(this=outer, alias=alias or exp.TableAlias(this=exp.to_identifier("windows")))
    if table.args.get("joins"):
        result.set("joins", table.args["joins"])
    table.replace(result)


def _remove(node: exp.Expr) -> None:
    """Remove a column from a list, without leaving parentheses around a single one."""
    parent = node.parent
    node.pop()
    if isinstance(parent, exp.Tuple) and len(parent.expressions) == 1:
        parent.replace(exp.Paren(this=parent.expressions[0]))


def _replace(node: exp.Expr, replaced: exp.Expr, name: str | None = None) -> None:
    """Replace a column by an expression, which keeps the column's name where it is a result."""
    parent = node.parent
    if name is not None and isinstance(parent, exp.Select) and node.arg_key == "expressions":
        replaced = exp.alias_(replaced, name)
    elif isinstance(parent, exp.Mul | exp.Div | exp.Sub | exp.Add) and isinstance(replaced, exp.Sub):
        replaced = exp.Paren(this=replaced)
    node.replace(replaced)
