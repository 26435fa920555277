"""Translate queries: the tables, windows, joins and functions of a SELECT."""

from __future__ import annotations

from dataclasses import replace

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import ErrorLevel, ParseError, TokenError, UnsupportedError

from ..identifiers import quote
from .declared_tables import DeclaredTable, explain_parse_error
from .dialect import Flink, Relation, SparkOutput
from .expressions.functions import translate_functions
from .expressions.inference import Output, TypesOfQuery
from .expressions.stream_queries import check_stream
from .expressions.types import translate_type
from .expressions.windows import note_first_windows, translate_group_windows, translate_window_tables
from .expressions.zones import NOT_IN_UTC
from .job import Job
from .report import Findings, Untranslatable
from .secrets import hide
from .statements import read_options
from .table_options import TableOptions, translate_options

_TABLE_ARGUMENTS = ("this", "db", "catalog", "alias", "joins")


def parse_query(text: str) -> exp.Expr:
    """Parse a query or an INSERT of Flink. Raises Untranslatable with the parser's reason."""
    if "MATCH_RECOGNIZE" in text.upper():
        raise Untranslatable("MATCH_RECOGNIZE has no equivalent: use a stateful operator of Spark in Python")
    if "MULTISET" in text.upper():
        raise Untranslatable("Spark has no type MULTISET")
    try:
        return sqlglot.parse_one(text, read=Flink)
    except ParseError as error:
        raise Untranslatable(f"It cannot be read: {explain_parse_error(error)}") from error


class QueryTranslator:
    """Translates one query of a job. Afterwards `reads_stream` says whether the query reads a stream."""

    def __init__(self, job: Job, findings: Findings, *, streaming: bool) -> None:
        """Take the job, and whether tables may be read as streams."""
        self._job = job
        self._findings = findings
        self._streaming = streaming
        self.reads_stream = False
        self.could_stream = False
        self.output: Output = []
        """The columns of the result, after the translation."""
        self.times: set[str] = set()
        """The event times of the streams that the query reads, in lower case."""

    def translate_tree(self, query: exp.Expr) -> exp.Expr:
        """Return a query that can be printed as Spark SQL. Raises Untranslatable."""
        query = query.copy()
        query.set("hint", None)
        for node in query.walk():
            node.comments = copy_comments(node, self._findings)
        self._translate_types(query)
        self.output = TypesOfQuery(self._columns_of).infer_types(query)
        zone = self._job.zone
        for select in list(query.find_all(exp.Select)):
            translate_group_windows(select, self._findings, zone)
        ctes = {cte.alias_or_name.lower() for cte in query.find_all(exp.CTE)}
        for table in list(query.find_all(exp.Table)):
            self._translate_table(table, ctes)
        for select in list(query.find_all(exp.Select)):
            translate_window_tables(select, self._findings, zone, self.reads_stream)
        if self.reads_stream:
            note_first_windows(query, self._findings)
            check_stream(query, self._findings)
        return translate_functions(query, self._findings, zone)

    def translate(self, query: exp.Expr) -> str:
        """Return a query in Spark SQL. Raises Untranslatable."""
        tree, level = self.translate_tree(query), ErrorLevel.RAISE
        try:
            return tree.sql(dialect=SparkOutput, pretty=True, normalize_functions=False, unsupported_level=level)
        except UnsupportedError as error:
            raise Untranslatable(f"It has no equivalent: {error}") from error

    def _translate_types(self, query: exp.Expr) -> None:
        for cast in query.find_all(exp.Cast):
            if cast.to.this in (exp.DataType.Type.TIME, exp.DataType.Type.TIMETZ):
                cast.to.set("expressions", [])
                self._findings.check("Spark has TIME only after SET spark.sql.timeType.enabled = true")
                continue
            translate_type(cast.to, "CAST", self._findings)

    def _columns_of(self, node: exp.Table) -> Output | None:
        if isinstance(node.this, exp.Func):
            return None
        name = self._job.complete_name([part.name for part in node.parts])
        if (view := self._job.views.get(name)) is not None:
            return view.output
        table = self._job.tables.get(name)
        return table.output if table is not None and table.columns.all else None

    def _translate_table(self, node: exp.Table, ctes: set[str]) -> None:
        if isinstance(node.this, exp.Func):
            raise Untranslatable(f"The table function {node.this.sql()} has no equivalent")
        if node.name.lower() in ctes and not node.db:
            return
        name = self._job.complete_name([part.name for part in node.parts])
        if (version := node.args.get("version")) is not None:
            raise Untranslatable(
                f"FOR SYSTEM_TIME AS OF {version.expression.sql() if version.expression else ''} of {name[2]}: Spark "
                "joins a stream with the current state of a table, or with another stream within an interval"
            )
        if others := [key for key, value in node.args.items() if value and key not in _TABLE_ARGUMENTS]:
            raise Untranslatable(f"{', '.join(others).upper()} after the table {name[2]} has no equivalent")
        view = self._job.views.get(name)
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name[2]))
        if view is not None and name not in self._job.broken:
            self.could_stream |= view.streaming
            if view.streaming and not self._streaming:
                inner = QueryTranslator(self._job, self._findings, streaming=False)
                columns = [exp.to_identifier(column) for column in view.columns]
                inline = exp.Subquery(this=inner.translate_tree(view.query))
                inline.set("alias", exp.TableAlias(this=alias.this, columns=columns or None))
                self._replace(node, inline)
                return
            self.reads_stream |= view.streaming
            self.times |= view.times
            relation = Relation(this=exp.var(quote(view.name)), streaming=view.streaming, times=sorted(view.times))
            relation.set("alias", node.args.get("alias"))
            self._replace(node, relation)
            return
        table = self._job.find_table(name)
        hints = [comment for comment in node.comments or () if comment.startswith("+")]
        options = apply_hints(hints, table, self._findings)
        streaming = self._streaming and options.streaming
        self.could_stream |= options.streaming
        text = table.build_relation(streaming=streaming, findings=self._findings, zone=self._job.zone, options=options)
        self.reads_stream |= streaming
        times = [table.columns.watermark[0].lower()] if streaming and table.columns.watermark else []
        self.times.update(times)
        if streaming and table.local_event_time and self._job.zone.name is None:
            self._findings.check(NOT_IN_UTC)
        self._replace(node, Relation(this=exp.var(text), alias=alias, streaming=streaming, times=times))

    def _replace(self, node: exp.Table, relation: exp.Expr) -> None:
        if joins := node.args.get("joins"):
            relation.set("joins", joins)
        relation.comments = [comment for comment in node.comments or () if not comment.startswith("+")] or None
        node.replace(relation)


def apply_hints(hints: list[str], table: DeclaredTable, findings: Findings) -> TableOptions:
    """Return a table's options, changed by hints `+ OPTIONS('key'='value')`. Adds a finding for one of another kind."""
    options = table.options
    for hint in hints:
        try:
            tokens = sqlglot.tokenize(hint[1:], read=Flink)
        except TokenError:
            tokens = []
        if not tokens or tokens[0].text.upper() != "OPTIONS" or tokens[-1].token_type is not TokenType.R_PAREN:
            findings.check(_describe_left_out_hint(hint))
            continue
        translated = translate_options(
            {"format": "raw", "scan.streams": ";".join(options.sources), **read_options(tokens[2:-1])}, findings
        )
        options = replace(
            options,
            sources=translated.sources or options.sources,
            sink=translated.sink or options.sink,
            streaming=translated.streaming if "scan.execution.type" in hint else options.streaming,
            starts=translated.starts or options.starts,
            ends=translated.ends or options.ends,
            reading={**options.reading, **translated.reading},
            writing={**options.writing, **translated.writing},
        )
    return options


def _describe_left_out_hint(hint: str) -> str:
    """Say that a hint was left out, by its name only, because its options may be secret."""
    name = hint[1:].split("(")[0].strip()
    shown = f" {name}" if name.isidentifier() else ""
    behind = "; write it after the name of a table" if name.upper() == "OPTIONS" else ""
    return f"The hint{shown} was left out{behind}"


def copy_comments(node: exp.Expr, findings: Findings) -> list[str] | None:
    """Return the comments of a node that can be copied, without secrets. Only tables keep their hints."""
    comments = []
    for comment in node.comments or ():
        if not comment.startswith("+"):
            comments.append(hide(comment))
        elif isinstance(node, exp.Table):
            comments.append(comment)
        else:
            findings.check(_describe_left_out_hint(comment))
    return comments or None
