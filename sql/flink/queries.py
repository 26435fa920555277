"""Queries: Flink's tables, windows, joins and functions in a SELECT as Spark's."""

from __future__ import annotations

from dataclasses import replace

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ParseError

from ..identifiers import quote
from .dialect import Flink, Relation, SparkOutput
from .functions import translate_functions
from .job import Job
from .report import Findings, Untranslatable
from .statements import options_of
from .table_options import TableOptions, translate_options
from .tables import DeclaredTable, reason
from .types import translated
from .windows import group_windows, window_table


def parse_query(text: str) -> exp.Expr:
    """Parse a query or an INSERT of Flink. Raises Untranslatable with the parser's reason."""
    if "MATCH_RECOGNIZE" in text.upper():
        raise Untranslatable("MATCH_RECOGNIZE has no equal: use a stateful operator of Spark in Python")
    if "MULTISET" in text.upper():
        raise Untranslatable("Spark has no type MULTISET")
    try:
        return sqlglot.parse_one(text, read=Flink)
    except ParseError as error:
        raise Untranslatable(f"It cannot be read: {reason(error)}") from error


class QueryTranslator:
    """Translates one query of a job; `reads_stream` tells afterwards whether it reads one."""

    def __init__(self, job: Job, findings: Findings, *, streaming: bool) -> None:
        """Take the job, and whether tables may be read as streams."""
        self._job = job
        self._findings = findings
        self._streaming = streaming
        self.reads_stream = False
        self.could_stream = False

    def tree(self, query: exp.Expr) -> exp.Expr:
        """Return a query that can be printed as Spark SQL. Raises Untranslatable."""
        query = query.copy()
        query.set("hint", None)
        for node in query.walk():
            node.comments = _comments(node, self._findings)
        self._types(query)
        for select in list(query.find_all(exp.Select)):
            group_windows(select, self._findings)
        ctes = {each.alias_or_name.lower() for each in query.find_all(exp.CTE)}
        for table in list(query.find_all(exp.Table)):
            self._table(table, ctes)
        for select in list(query.find_all(exp.Select)):
            window_table(select, self._findings, self.reads_stream)
        if self.reads_stream:
            self._check_stream(query)
        return translate_functions(query, self._findings)

    def sql(self, query: exp.Expr) -> str:
        """Return a query in Spark SQL. Raises Untranslatable."""
        return self.tree(query).sql(dialect=SparkOutput, pretty=True, normalize_functions=False)

    def _types(self, query: exp.Expr) -> None:
        for cast in query.find_all(exp.Cast):
            if cast.to.this in (exp.DataType.Type.TIME, exp.DataType.Type.TIMETZ):
                cast.to.set("expressions", [])
                self._findings.check(
                    "Spark has TIME only after SET spark.sql.timeType.enabled = true, and no table has it"
                )
                continue
            translated(cast.to, "CAST", self._findings)

    def _table(self, node: exp.Table, ctes: set[str]) -> None:
        if isinstance(node.this, exp.Func):
            raise Untranslatable(f"The table function {node.this.sql()} has no equal")
        if node.name.lower() in ctes and not node.db:
            return
        name = self._job.name_of([part.name for part in node.parts])
        if (version := node.args.get("version")) is not None:
            raise Untranslatable(
                f"FOR SYSTEM_TIME AS OF {version.expression.sql() if version.expression else ''} of {name[2]}: Spark "
                "joins a stream with a table as it is, or with another stream within an interval"
            )
        view = self._job.views.get(name)
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name[2]))
        if view is not None and name not in self._job.broken:
            self.could_stream |= view.streaming
            if view.streaming and not self._streaming:
                inner = QueryTranslator(self._job, self._findings, streaming=False)
                columns = [exp.to_identifier(each) for each in view.columns]
                inline = exp.Subquery(this=inner.tree(view.query))
                inline.set("alias", exp.TableAlias(this=alias.this, columns=columns or None))
                self._put(node, inline)
                return
            self.reads_stream |= view.streaming
            self._put(node, Relation(text=quote(view.name), alias=node.args.get("alias")))
            return
        table = self._job.table(name)
        options = self._hinted(node, table)
        streaming = self._streaming and options.streaming
        self.could_stream |= options.streaming
        text = table.relation(streaming=streaming, findings=self._findings, options=options)
        self.reads_stream |= streaming
        self._put(node, Relation(text=text, alias=alias))

    def _put(self, node: exp.Table, relation: exp.Expr) -> None:
        if joins := node.args.get("joins"):
            relation.set("joins", joins)
        relation.comments = [each for each in node.comments or () if not each.startswith("+")] or None
        node.replace(relation)

    def _hinted(self, node: exp.Table, table: DeclaredTable) -> TableOptions:
        """Return the options of a table with those of a hint `/*+ OPTIONS('key'='value') */`."""
        hints = [each for each in node.comments or () if each.startswith("+")]
        return with_hints(hints, table, self._findings)

    def _check_stream(self, query: exp.Expr) -> None:
        if any(isinstance(each.parent, exp.Query) for each in query.find_all(exp.Order, exp.Limit)):
            raise Untranslatable("A stream is neither sorted nor limited in Spark")
        if query.find(exp.Window):
            raise Untranslatable(
                "OVER of a stream has no equal in Spark: use windows of time, or a stateful operator in Python"
            )
        if any(not isinstance(each.parent, exp.Select) for each in query.find_all(exp.Distinct)):
            raise Untranslatable("Distinct values of a stream are not counted in Spark: use APPROX_COUNT_DISTINCT")
        for select in query.find_all(exp.Select):
            group = select.args.get("group")
            if group is None and not select.args.get("distinct"):
                continue
            if group is None or not any(
                call.name in ("window", "session_window") for call in group.find_all(exp.Anonymous)
            ):
                self._findings.check(
                    "Flink updates the results of a group without a window; a table of Pravega takes final results "
                    "only, and Spark refuses such a stream without a window of time"
                )


def with_hints(hints: list[str], table: DeclaredTable, findings: Findings) -> TableOptions:
    """Return a table's options with those of hints. Raises Untranslatable for a hint that is none of options."""
    options = table.options
    for hint in hints:
        tokens = sqlglot.tokenize(hint[1:], read=Flink)
        if not tokens or tokens[0].text.upper() != "OPTIONS" or tokens[-1].token_type is not TokenType.R_PAREN:
            findings.check(f"The hint {hint[1:].strip()} was left out")
            continue
        given = translate_options(
            {"format": "raw", "scan.streams": ";".join(options.sources), **options_of(tokens[2:-1])}, findings
        )
        options = replace(
            options,
            sources=given.sources or options.sources,
            sink=given.sink or options.sink,
            streaming=given.streaming if "scan.execution.type" in hint else options.streaming,
            starts=given.starts or options.starts,
            ends=given.ends or options.ends,
            reading={**options.reading, **given.reading},
            writing={**options.writing, **given.writing},
        )
    return options


def _comments(node: exp.Expr, findings: Findings) -> list[str] | None:
    if not node.comments:
        return None
    if not isinstance(node, exp.Table):
        for each in node.comments:
            if each.startswith("+"):
                findings.check(f"The hint {each[1:].strip()} was left out")
        return [each for each in node.comments if not each.startswith("+")] or None
    return list(node.comments)
