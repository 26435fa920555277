"""Translate a Flink script into a script for `pyspark-pravega run`, with a report on the differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import TokenType, exp

from pyspark_pravega.errors import InvalidScriptError

from ..identifiers import quote_all
from . import declarations
from .declarations import Cursor
from .declared_tables import DeclaredTable, quote_text
from .expressions.inference import ZONED
from .expressions.zones import NOT_IN_UTC, Zone, report_zone_dependence
from .job import Job
from .query_translator import QueryTranslator, apply_hints, copy_comments, parse_query
from .report import Finding, Findings, Severity, Untranslatable, choose_exit_code
from .secrets import hide, hide_in_statement, hide_logins
from .statements import FlinkStatement, find_trailing_comments, slice_source, split_flink_script
from .table_options import parse_milliseconds

_OF_THE_ENGINE = (
    "execution.checkpointing.",
    "execution.attached",
    "execution.target",
    "heartbeat.",
    "jobmanager.",
    "pipeline.",
    "rest.",
    "restart-strategy",
    "sql-client.",
    "state.backend",
    "state.savepoints.",
    "table.dml-sync",
    "table.dynamic-table-options.enabled",
    "table.exec.async-",
    "table.exec.mini-batch.",
    "table.exec.resource.",
    "table.optimizer.",
    "taskmanager.",
)
"""Keys that say how Flink works, not what a job means."""
CHECKPOINT_DIRECTORIES = ("execution.checkpointing.dir", "state.checkpoints.dir")


def translate_setting(key: str, value: str, findings: Findings) -> str | None:
    """Return the SET for a setting; None, with a finding, for one that has no equivalent."""
    if key == "execution.checkpointing.interval" and (length := parse_milliseconds(value)) is not None:
        findings.note("Rows become visible with each micro-batch, as they did in Flink with each checkpoint")
        return f"SET pravega.stream.trigger = {quote_text(f'{length} ms')}"
    if key in CHECKPOINT_DIRECTORIES:
        if hide_logins(value) != value:
            findings.check(
                f"'{key}' contains a login, which is not copied: write SET pravega.stream.checkpoint without it"
            )
            return None
        findings.note("Flink's checkpoints cannot be read: the job starts where its scan options say")
        return f"SET pravega.stream.checkpoint = {quote_text(value)}"
    if key == "table.local-time-zone":
        return f"SET spark.sql.session.timeZone = {value}"
    if key == "parallelism.default":
        return f"SET spark.sql.shuffle.partitions = {value}"
    if key.startswith(_OF_THE_ENGINE):
        findings.note(f"'{key}' is left out: it says how Flink works, not what the job means")
    else:
        findings.check(f"The setting '{key}' is not known, and was left out")
    return None


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
        """Return 0 if every statement has kept its meaning, else 3."""
        return choose_exit_code(self.findings)


def translate(script: str, *, catalog: str = "pravega", checkpoint: str | None = None) -> Translation:
    """Translate a script of Flink SQL.

    `catalog` is the catalog of Spark that has the tables of connector `pravega`, `checkpoint` the directory of
    checkpoints. Raises InvalidScriptError for text that cannot be split into statements, or has none.
    """
    statements = split_flink_script(script)
    if not statements:
        raise InvalidScriptError("The script has no statement.")
    translator = _Translator(Job(catalog, has_checkpoint=checkpoint is not None))
    blocks = [translator.translate(statement) for statement in statements]
    if checkpoint is not None:
        blocks.insert(0, f"SET pravega.stream.checkpoint = {quote_text(checkpoint)};")
    if rest := find_trailing_comments(script):
        blocks.append(hide(rest))
    text = "\n\n".join(block for block in blocks if block) + "\n"
    return Translation(text, len(statements), tuple(translator.findings))


class _Translator:
    def __init__(self, job: Job) -> None:
        self._job = job
        self.findings: list[Finding] = []

    def translate(self, statement: FlinkStatement) -> str:
        """Return the translation of a statement, with its comments and findings before it."""
        findings = Findings(statement.line)
        try:
            translated = self._translate(statement, findings)
        except (Untranslatable, InvalidScriptError) as error:
            translated = []
            findings.note_untranslated(error.message if isinstance(error, InvalidScriptError) else str(error))
        except (IndexError, ValueError, StopIteration):  # a word is missing, or there is one too many
            translated = []
            findings.note_untranslated("It does not have the form that Flink's documentation describes")
        lines = [hide(statement.comments)] if statement.comments else []
        lines += [f"-- {_join_lines(finding)}" for finding in findings.found]
        if any(finding.severity is Severity.UNTRANSLATED for finding in findings.found) or not translated:
            lines += [f"-- {line}" for line in hide_in_statement(statement).split("\n")]
        else:
            lines += [
                f"-- {line}" for comment in _find_lost_comments(statement, translated) for line in comment.split("\n")
            ]
        lines += [f"{text};" for text in translated]
        self.findings += findings.found
        return "\n".join(lines)

    def _translate(self, statement: FlinkStatement, findings: Findings) -> list[str]:
        words = [word for word in statement.words[:4] if word != "TEMPORARY"]
        create: dict[str, Callable[[FlinkStatement, Job, Findings], list[str]]] = {
            "CATALOG": declarations.create_catalog,
            "DATABASE": declarations.create_database,
            "TABLE": declarations.create_table,
            "VIEW": declarations.create_view,
        }
        match words:
            case ["CREATE", kind, *_] if kind in create:
                return create[kind](statement, self._job, findings)
            case ["DROP", "TABLE" | "VIEW", *_]:
                return declarations.drop(statement, self._job, findings)
            case ["DROP", "DATABASE", *_]:
                return declarations.drop_database(statement, self._job)
            case ["USE", *_]:
                return declarations.use(statement, self._job, findings)
            case ["SET" | "RESET", *_]:
                return self._translate_setting(statement, findings)
            case ["BEGIN", "STATEMENT", "SET", *_] | ["EXECUTE", "STATEMENT", "SET", *_]:
                return self._translate_statement_set(statement, findings)
            case ["END", *_]:
                findings.note("The end of the statement set")
                return []
            case ["EXECUTE", "INSERT", *_]:
                return self._translate_insert(statement.after(1), findings)
            case ["INSERT", *_]:
                return self._translate_insert(statement.text, findings)
            case ["SELECT" | "WITH" | "VALUES" | "(", *_]:
                return [self._translate_select(statement.text, findings)]
            case ["EXPLAIN", *_]:
                return [self._translate_explain(statement, findings)]
            case ["DESCRIBE" | "DESC", *_]:
                return [f"DESCRIBE {self._read_table_name(statement, 1)}"]
            case ["SHOW", *_]:
                return [self._translate_show(statement)]
        raise Untranslatable(f"{' '.join(words[:2])} has no equivalent in a script")

    def _translate_setting(self, statement: FlinkStatement, findings: Findings) -> list[str]:
        tokens = statement.tokens
        if statement.has_first_words("RESET"):
            findings.check("RESET is left out: Spark settings are reset by RESET <key>")
            return []
        if len(tokens) == 1:
            return ["SET"]
        index = next((n for n, token in enumerate(tokens) if token.token_type is TokenType.EQ), None)
        if index is None:
            raise Untranslatable("A setting is written SET 'key' = 'value'")
        key = "".join(token.text for token in tokens[1:index])
        after = tokens[index + 1 :]
        value = after[0].text if len(after) == 1 else slice_source(statement.text, tokens[0], after)
        if key == "execution.runtime-mode":
            self._job.batch = value.lower() == "batch"
            findings.note(f"{'Tables' if self._job.batch else 'Streams'} are read from here on")
            return []
        if key == "pipeline.name":
            findings.note("A streaming statement has the name of its table: SET pravega.stream.name changes it")
            return []
        if key == "table.local-time-zone":
            self._job.zone = Zone(value)
            if self._job.local_event_time and not self._job.zone.is_utc:
                findings.check(NOT_IN_UTC)
        translated = translate_setting(key, value, findings)
        self._job.has_checkpoint |= key in CHECKPOINT_DIRECTORIES and translated is not None
        return [translated] if translated else []

    def _translate_statement_set(self, statement: FlinkStatement, findings: Findings) -> list[str]:
        findings.note("The INSERTs of a statement set run side by side here, each with its own checkpoint")
        after = 3
        if statement.words[3:4] == ("AS",):
            after = 4
        if statement.words[after : after + 1] == ("BEGIN",):
            after += 1
        rest = statement.after(after)
        return self._translate_insert(rest, findings) if rest else []

    def _translate_insert(self, text: str, findings: Findings) -> list[str]:
        tree = parse_query(text)
        if not isinstance(tree, exp.Insert) or tree.expression is None:
            raise Untranslatable("Only INSERT INTO table [(columns)] query is translated")
        if tree.args.get("overwrite"):
            raise Untranslatable("INSERT OVERWRITE: a stream only grows; use INSERT INTO, or a new table")
        schema = tree.this
        named = schema.this if isinstance(schema, exp.Schema) else schema
        if named.args.get("partition"):
            raise Untranslatable(
                "INSERT INTO ... PARTITION: a stream has no partitions; SELECT the value for its column"
            )
        others = [key for key, value in tree.args.items() if value and key not in _INSERT_ARGUMENTS]
        others += [key for key, value in named.args.items() if value and key not in ("this", "db", "catalog")]
        if others:
            raise Untranslatable(f"INSERT INTO with {', '.join(others).upper()} has no equivalent")
        table = self._job.find_table(self._job.complete_name([part.name for part in named.parts]))
        hints = [comment for comment in (*(named.comments or ()), *(schema.comments or ())) if comment.startswith("+")]
        for node in tree.walk(prune=lambda node: node is tree.expression):
            if not any(node is seen for seen in (named, schema, tree.expression)):
                copy_comments(node, findings)  # adds findings for hints without effect
        named.comments = schema.comments = tree.comments = None
        target = table.name_target(apply_hints(hints, table, findings))
        if table.options.sql_timestamps and not table.told and "TIMESTAMP" in str(table.columns.physical):
            table.told = True
            findings.check(
                "Timestamps are written as 2024-01-31T12:00:00.000000; Flink's json.timestamp-format.standard was SQL, "
                "so other Flink jobs that read the stream need ISO-8601"
            )
        translator = QueryTranslator(self._job, findings, streaming=not self._job.batch)
        query = tree.expression
        if (ctes := tree.args.get("with_") or tree.args.get("with")) is not None:
            query.set("with_" if "with_" in exp.Select.arg_types else "with", ctes)
        sql = translator.translate(query)
        names = [column.name for column in schema.expressions] if schema is not named else []
        columns = (
            f" ({', '.join(column.sql('spark', comments=False) for column in schema.expressions)})" if names else ""
        )
        self._check_zones(translator, table, names, findings)
        insert = f"INSERT INTO {target}{columns}\n{table.convert_rows(sql, names)}"
        if not translator.reads_stream:
            return [insert]
        if not self._job.has_checkpoint:
            findings.check(_NO_CHECKPOINT)
        written = table.full_name(str(table.options.sink))
        number = self._job.writes[written] = self._job.writes.get(written, 0) + 1
        if number == 1:
            return [insert]
        name = f"{table.catalog}.{table.options.scope}.{table.options.sink}-{number}"
        return [f"SET pravega.stream.name = {quote_text(name)}", insert, "RESET pravega.stream.name"]

    def _check_zones(
        self, translator: QueryTranslator, table: DeclaredTable, names: list[str], findings: Findings
    ) -> None:
        """Add findings where INSERT makes a TIMESTAMP of a TIMESTAMP_LTZ, or vice versa."""
        kinds = dict(table.output)
        written = names or [column.name for column in table.columns.physical]
        for name, (_, declared) in zip(written, translator.output, strict=False):
            kind = kinds.get(name.lower())
            if (
                self._job.zone.chosen
                and declared != kind
                and ZONED in (declared, kind)
                and None not in (declared, kind)
            ):
                report_zone_dependence(f"The value of {name}", findings)

    def _translate_select(self, text: str, findings: Findings) -> str:
        selected, could_stream = self._translate_batch(text, findings)
        if could_stream and not self._job.batch:
            findings.check("A SELECT of a stream would never end: here it shows what is there, and ends")
        return selected

    def _translate_batch(self, text: str, findings: Findings) -> tuple[str, bool]:
        """Return a query that ends, and whether it would not have ended in Flink."""
        translator = QueryTranslator(self._job, findings, streaming=False)
        translated = translator.translate(parse_query(text))
        return translated, translator.could_stream

    def _translate_explain(self, statement: FlinkStatement, findings: Findings) -> str:
        if statement.words[1:3] == ("PLAN", "FOR"):
            return f"EXPLAIN {self._translate_batch(statement.after(3), findings)[0]}"
        if statement.words[1:2] in (("SELECT",), ("WITH",)):
            return f"EXPLAIN {self._translate_batch(statement.after(1), findings)[0]}"
        raise Untranslatable("EXPLAIN of anything but a query has no equivalent in a script")

    def _read_table_name(self, statement: FlinkStatement, skip: int) -> str:
        cursor = Cursor(statement)
        cursor.at = skip
        name = self._job.complete_name(cursor.name())
        if (view := self._job.views.get(name)) is not None:
            return quote_all((view.name,))
        table = self._job.find_table(name)
        return table.full_name(table.streams[0])

    def _translate_show(self, statement: FlinkStatement) -> str:
        words = statement.words[1:]
        if words in _SHOWN:
            return _SHOWN[words]
        if words[:2] == ("CREATE", "TABLE"):
            return f"SHOW CREATE TABLE {self._read_table_name(statement, 3)}"
        cursor = Cursor(statement)
        cursor.at = 2
        pravega = self._job.is_pravega(self._job.catalog)
        scope = cursor.name() if cursor.take("IN") or cursor.take("FROM") else None
        pattern = f" LIKE {quote_text(cursor.text().replace('%', '*'))}" if cursor.take("LIKE") else ""
        if cursor.at == len(cursor.tokens):
            if words[0] == "DATABASES" and (pravega or scope):
                return f"SHOW NAMESPACES IN {quote_all(scope or [self._job.catalog])}{pattern}"
            if words[0] == "TABLES":
                database = scope or [self._job.catalog, self._job.database]
                return f"SHOW TABLES IN {declarations.qualify_database(database, self._job)}{pattern}"
        raise Untranslatable(f"{' '.join(word for word in statement.words[:3] if word)} has no equivalent in a script")


def _join_lines(finding: Finding) -> str:
    return " ".join(f"{finding.severity.value}: {finding.text}".split())


def _find_lost_comments(statement: FlinkStatement, translated: list[str]) -> list[str]:
    """Return the comments inside a statement that its translation lacks."""
    shown = "\n".join(translated)
    inside = [comment.strip() for token in statement.tokens for comment in token.comments]
    inside = [comment for comment in inside if comment in statement.text and not comment.startswith("+")]
    return [comment for comment in map(hide, inside) if comment not in shown]
