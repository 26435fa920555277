"""Translate a Flink script into a script for `pyspark-pravega run`, with a report on the differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sqlglot import TokenType, exp

from pyspark_pravega.errors import InvalidScriptError

from ..identifiers import quote, quote_all
from . import declarations
from .declared_tables import DeclaredTable, quote_text
from .expressions.inference import ZONED
from .expressions.zones import NOT_IN_UTC, Zone, report_zone_dependence
from .job import Job
from .query_translator import QueryTranslator, apply_hints, copy_comments, parse_query
from .report import ALL_TRANSLATED, INCOMPLETE, Finding, Findings, Severity, Untranslatable
from .secrets import hide, hide_in_statement, hide_logins
from .statements import Cursor, FlinkStatement, slice_source, split_flink_script
from .table_options import parse_milliseconds

_OF_THE_ENGINE = tuple(
    """execution.checkpointing. execution.attached execution.target heartbeat. jobmanager. pipeline. rest.
    restart-strategy sql-client. state.backend state.savepoints. table.dml-sync table.dynamic-table-options.enabled
    table.exec.async- table.exec.mini-batch. table.exec.resource. table.optimizer. taskmanager.""".split()
)
"""Keys that say how Flink works, not what a job means."""
_CHECKPOINT_DIRECTORIES = ("execution.checkpointing.dir", "state.checkpoints.dir")


_NO_CHECKPOINT = (
    "Streaming statements need a directory for checkpoints: give --checkpoint, or write SET pravega.stream.checkpoint"
)
_INSERT_ARGUMENTS = ("this", "expression", "with", "with_")
_SHOWN = {
    ("CATALOGS",): "SHOW CATALOGS",
    ("CURRENT", "CATALOG"): "SELECT current_catalog()",
    ("CURRENT", "DATABASE"): "SELECT current_database()",
    ("FUNCTIONS",): "SHOW FUNCTIONS",
    ("VIEWS",): "SHOW VIEWS IN spark_catalog.default",  # with those of the session
}


@dataclass(frozen=True)
class Translation:
    """The script in Spark SQL, the number of statements of the Flink script, and the findings."""

    script: str
    statements: int
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        """Return ALL_TRANSLATED if every statement has kept its meaning, else INCOMPLETE."""
        kept = all(finding.severity is Severity.NOTE for finding in self.findings)
        return ALL_TRANSLATED if kept else INCOMPLETE


def translate(script: str, *, catalog: str = "pravega", checkpoint: str | None = None) -> Translation:
    """Translate a script of Flink SQL.

    `catalog` is the catalog of Spark that has the tables of connector `pravega`, `checkpoint` the directory of
    checkpoints. Raises InvalidScriptError for text that cannot be split into statements, or has none.
    """
    statements, comments = split_flink_script(script)
    if not statements:
        raise InvalidScriptError("The script has no statement.")
    job, findings = Job(catalog, has_checkpoint=checkpoint is not None), list[Finding]()
    blocks = [_translate_statement(statement, job, findings) for statement in statements]
    if checkpoint is not None:
        blocks.insert(0, f"SET pravega.stream.checkpoint = {quote_text(checkpoint)};")
    blocks.append(hide(comments))
    return Translation("\n\n".join(filter(None, blocks)) + "\n", len(statements), tuple(findings))


def _translate_statement(statement: FlinkStatement, job: Job, all_findings: list[Finding]) -> str:
    """Return the translation of a statement, with its comments and findings before it."""
    findings = Findings(statement.line)
    translated: list[str] = []
    try:
        translated = _find_translator(statement)(job, findings)
    except (Untranslatable, InvalidScriptError) as error:
        findings.note_untranslated(error.message if isinstance(error, InvalidScriptError) else str(error))
    except (IndexError, ValueError, StopIteration):  # a word is missing, or there is one too many
        findings.note_untranslated("It does not have the form that Flink's documentation describes")
    lines = [hide(statement.comments)] if statement.comments else []
    lines += [" ".join(f"-- {finding.severity.value}: {finding.text}".split()) for finding in findings.found]
    left = _find_lost_comments(statement, translated) if translated else [hide_in_statement(statement)]
    lines += [f"-- {line}" for text in left for line in text.split("\n")]
    lines += [f"{text};" for text in translated]
    all_findings += findings.found
    return "\n".join(lines)


def _find_translator(statement: FlinkStatement) -> Callable[[Job, Findings], list[str]]:
    """Return what translates a statement, by its first words. Raises Untranslatable."""
    words = tuple(word for word in statement.words[:4] if word != "TEMPORARY")
    if words[0] in _WHOLE:
        return partial(_WHOLE[words[0]], Cursor(statement))
    for first, translator in _TRANSLATORS.items():
        if words[: len(first)] == first:
            count = len(first) + (statement.words[1:2] == ("TEMPORARY",))
            return partial(translator, Cursor(statement, count))
    raise Untranslatable(f"{' '.join(words[:2])} has no equivalent in a script")


def _translate_setting(cursor: Cursor, job: Job, findings: Findings) -> list[str]:
    tokens = cursor.tokens
    if len(tokens) == 1:
        return ["SET"]
    index = next((n for n, token in enumerate(tokens) if token.token_type is TokenType.EQ), None)
    if index is None:
        raise Untranslatable("A setting is written SET 'key' = 'value'")
    key = "".join(token.text for token in tokens[1:index])
    after = tokens[index + 1 :]
    value = after[0].text if len(after) == 1 else slice_source(cursor.statement.text, tokens[0], after)
    if key == "execution.runtime-mode":
        job.batch = value.lower() == "batch"
        findings.note(f"{'Tables' if job.batch else 'Streams'} are read from here on")
    elif key == "pipeline.name":
        findings.note("A streaming statement has the name of its table: SET pravega.stream.name changes it")
    elif key == "table.local-time-zone":
        job.zone = Zone(value)
        if job.local_event_time and not job.zone.is_utc:
            findings.check(NOT_IN_UTC)
        return [f"SET spark.sql.session.timeZone = {value}"]
    elif key == "execution.checkpointing.interval" and (length := parse_milliseconds(value)) is not None:
        findings.note("Rows become visible with each micro-batch, as they did in Flink with each checkpoint")
        return [f"SET pravega.stream.trigger = {quote_text(f'{length} ms')}"]
    elif key in _CHECKPOINT_DIRECTORIES and hide_logins(value) != value:
        findings.check(f"'{key}' contains a login, which is not copied: write SET pravega.stream.checkpoint without it")
    elif key in _CHECKPOINT_DIRECTORIES:
        job.has_checkpoint = True
        findings.note("Flink's checkpoints cannot be read: the job starts where its scan options say")
        return [f"SET pravega.stream.checkpoint = {quote_text(value)}"]
    elif key == "parallelism.default":
        return [f"SET spark.sql.shuffle.partitions = {value}"]
    elif key.startswith(_OF_THE_ENGINE):
        findings.note(f"'{key}' is left out: it says how Flink works, not what the job means")
    else:
        findings.check(f"The setting '{key}' is not known, and was left out")
    return []


def _leave_out_reset(cursor: Cursor, job: Job, findings: Findings) -> list[str]:
    findings.check("RESET is left out: Spark settings are reset by RESET <key>")
    return []


def _begin_statement_set(cursor: Cursor, job: Job, findings: Findings) -> list[str]:
    findings.note("The INSERTs of a statement set run side by side here, each with its own checkpoint")
    cursor.take("AS")
    cursor.take("BEGIN")
    return [] if cursor.ended else _translate_insert(cursor, job, findings)


def _execute_insert(cursor: Cursor, job: Job, findings: Findings) -> list[str]:
    cursor.at -= 1
    return _translate_insert(cursor, job, findings)


def _end_statement_set(cursor: Cursor, job: Job, findings: Findings) -> list[str]:
    findings.note("The end of the statement set")
    return []


def _translate_insert(cursor: Cursor, job: Job, findings: Findings) -> list[str]:
    tree = parse_query(cursor.rest())
    if not isinstance(tree, exp.Insert) or tree.expression is None:
        raise Untranslatable("Only INSERT INTO table [(columns)] query is translated")
    if tree.args.get("overwrite"):
        raise Untranslatable("INSERT OVERWRITE: a stream only grows; use INSERT INTO, or a new table")
    schema = tree.this
    named = schema.this if isinstance(schema, exp.Schema) else schema
    if named.args.get("partition"):
        raise Untranslatable("INSERT INTO ... PARTITION: a stream has no partitions; SELECT the value for its column")
    others = [key for key, value in tree.args.items() if value and key not in _INSERT_ARGUMENTS]
    others += [key for key, value in named.args.items() if value and key not in ("this", "db", "catalog")]
    if others:
        raise Untranslatable(f"INSERT INTO with {', '.join(others).upper()} has no equivalent")
    table = job.find_table(job.complete_name([part.name for part in named.parts]))
    hints = [comment for comment in (*(named.comments or ()), *(schema.comments or ())) if comment.startswith("+")]
    for node in tree.walk(prune=lambda node: node is tree.expression):
        if not any(node is seen for seen in (named, schema, tree.expression)):
            copy_comments(node, findings)  # adds findings for hints without effect
    named.comments = schema.comments = tree.comments = None
    target = table.name_target(apply_hints(hints, table, findings))
    if table.options.sql_timestamps and not table.told and "TIMESTAMP" in str(table.columns.physical):
        table.told = True
        readers = (
            "Flink's json.timestamp-format.standard was SQL, so other Flink jobs that read the stream need ISO-8601"
        )
        if table.options.format == "csv":
            readers = "Flink's csv cannot read them"
        findings.check(f"Timestamps are written as 2024-01-31T12:00:00.000000; {readers}")
    translator = QueryTranslator(job, findings, streaming=not job.batch)
    query = tree.expression
    if (ctes := tree.args.get("with_") or tree.args.get("with")) is not None:
        query.set("with_" if "with_" in exp.Select.arg_types else "with", ctes)
    sql = translator.translate(query)
    names = [column.name for column in schema.expressions] if schema is not named else []
    columns = f" ({', '.join(column.sql('spark', comments=False) for column in schema.expressions)})" if names else ""
    if job.zone.chosen:
        _check_zones(translator, table, names, findings)
    insert = f"INSERT INTO {target}{columns}\n{table.convert_rows(sql, names)}"
    if not translator.reads_stream:
        return [insert]
    if not job.has_checkpoint:
        findings.check(_NO_CHECKPOINT)
    written = table.full_name(str(table.options.sink))
    number = job.writes[written] = job.writes.get(written, 0) + 1
    if number == 1:
        return [insert]
    name = f"{table.catalog}.{table.options.scope}.{table.options.sink}-{number}"
    return [f"SET pravega.stream.name = {quote_text(name)}", insert, "RESET pravega.stream.name"]


def _check_zones(translator: QueryTranslator, table: DeclaredTable, names: list[str], findings: Findings) -> None:
    """Add findings where INSERT makes a TIMESTAMP of a TIMESTAMP_LTZ, or vice versa."""
    kinds = dict(table.output)
    written = names or [column.name for column in table.columns.physical]
    for name, (_, declared) in zip(written, translator.output, strict=False):
        kind = kinds.get(name.lower())
        if declared != kind and ZONED in (declared, kind) and None not in (declared, kind):
            report_zone_dependence(f"The value of {name}", findings)


def _translate_select(cursor: Cursor, job: Job, findings: Findings) -> list[str]:
    selected, could_stream = _translate_batch(cursor, job, findings)
    if could_stream and not job.batch:
        findings.check("A SELECT of a stream would never end: here it shows what is there, and ends")
    return [selected]


def _translate_batch(cursor: Cursor, job: Job, findings: Findings) -> tuple[str, bool]:
    """Return a query that ends, and whether it would not have ended in Flink."""
    translator = QueryTranslator(job, findings, streaming=False)
    translated = translator.translate(parse_query(cursor.rest()))
    return translated, translator.could_stream


def _translate_explain(cursor: Cursor, job: Job, findings: Findings) -> list[str]:
    if not cursor.take("PLAN", "FOR") and cursor.words[1:2] not in (("SELECT",), ("WITH",)):
        raise Untranslatable("EXPLAIN of anything but a query has no equivalent in a script")
    return [f"EXPLAIN {_translate_batch(cursor, job, findings)[0]}"]


def _describe_table(cursor: Cursor, job: Job, findings: Findings) -> list[str]:
    words = "SHOW CREATE TABLE" if cursor.words[0] == "SHOW" else "DESCRIBE"
    name = job.complete_name(cursor.name())
    if (view := job.views.get(name)) is not None:
        return [f"{words} {quote(view.name)}"]
    table = job.find_table(name)
    return [f"{words} {table.full_name(table.streams[0])}"]


def _translate_show(cursor: Cursor, job: Job, findings: Findings) -> list[str]:
    words = cursor.words[1:]
    if words in _SHOWN:
        return [_SHOWN[words]]
    cursor.at += 1
    scope = cursor.name() if cursor.take("IN") or cursor.take("FROM") else None
    pattern = f" LIKE {quote_text(cursor.text().replace('%', '*'))}" if cursor.take("LIKE") else ""
    if cursor.at == len(cursor.tokens):
        if words[0] == "DATABASES" and (scope or job.is_pravega(job.catalog)):
            return [f"SHOW NAMESPACES IN {quote_all(scope or [job.catalog])}{pattern}"]
        if words[0] == "TABLES":
            database = declarations.qualify_database(scope or [job.catalog, job.database], job)
            return [f"SHOW TABLES IN {database}{pattern}"]
    raise Untranslatable(f"{' '.join(word for word in cursor.words[:3] if word)} has no equivalent in a script")


_TRANSLATORS: dict[tuple[str, ...], Callable[[Cursor, Job, Findings], list[str]]] = {
    ("CREATE", "CATALOG"): declarations.create_catalog,
    ("CREATE", "DATABASE"): declarations.create_database,
    ("CREATE", "TABLE"): declarations.create_table,
    ("CREATE", "VIEW"): declarations.create_view,
    ("DROP", "DATABASE"): declarations.drop_database,
    ("DROP", "TABLE"): declarations.drop_table,
    ("DROP", "VIEW"): declarations.drop_view,
    ("USE",): declarations.use,
    ("SET",): _translate_setting,
    ("RESET",): _leave_out_reset,
    ("BEGIN", "STATEMENT", "SET"): _begin_statement_set,
    ("EXECUTE", "STATEMENT", "SET"): _begin_statement_set,
    ("EXECUTE", "INSERT"): _execute_insert,
    ("END",): _end_statement_set,
    ("EXPLAIN",): _translate_explain,
    ("DESCRIBE",): _describe_table,
    ("DESC",): _describe_table,
    ("SHOW", "CREATE", "TABLE"): _describe_table,
    ("SHOW",): _translate_show,
}
"""What translates a statement that begins with these words; it reads on after them."""
_WHOLE: dict[str, Callable[[Cursor, Job, Findings], list[str]]] = {
    "INSERT": _translate_insert,
    **dict.fromkeys(("SELECT", "WITH", "VALUES", "("), _translate_select),
}
"""What translates a statement of which this is the first word."""


def _find_lost_comments(statement: FlinkStatement, translated: list[str]) -> list[str]:
    """Return the comments inside a statement that its translation lacks."""
    shown = "\n".join(translated)
    inside = [comment.strip() for token in statement.tokens for comment in token.comments]
    inside = [comment for comment in inside if comment in statement.text and not comment.startswith("+")]
    return [comment for comment in map(hide, inside) if comment not in shown]
