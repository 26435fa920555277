"""Translate a table that Flink declares: into the statement that makes it, and into the relation that queries read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from ..identifiers import quote, quote_all
from ..option_types import format_duration
from .declared_columns import Columns, ComputedColumn, MetadataColumn, PhysicalColumn
from .dialect import Flink, SparkOutput
from .expressions.functions import translate_functions
from .expressions.inference import Output, infer, remember, strip_type_arguments
from .expressions.zones import Zone, measure_interval
from .report import Findings, Untranslatable
from .table_options import CHANGES, MILLISECOND, TableOptions

_1970 = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
_EVENT_POINTER = "event_pointer"


def quote_text(text: str) -> str:
    """Return a text as a Spark SQL literal."""
    return exp.Literal.string(text).sql(dialect=SparkOutput)


def format_options(options: Mapping[str, str]) -> str:
    """Return options as `('key'='value', ...)`."""
    return "(" + ", ".join(f"{quote_text(key)}={quote_text(text)}" for key, text in options.items()) + ")"


@dataclass
class DeclaredTable:
    """A table of connector `pravega`, or of a Pravega catalog, with the Spark catalog that has its streams."""

    name: str
    catalog: str
    columns: Columns
    options: TableOptions
    comment: str | None = None
    several: str | None = None
    """The name of the Spark table that is all its sources as one; None if each is read by its own name."""
    told: bool = False
    """Whether a finding already says what INSERTs write."""

    @property
    def streams(self) -> list[str]:
        """Return the streams that it reads and writes, each once."""
        return list(dict.fromkeys([*self.options.sources, *([self.options.sink] if self.options.sink else [])]))

    @property
    def output(self) -> Output:
        """Return its columns as queries see them, with their types."""
        kinds: dict[str, str | None] = {
            column.name.lower(): strip_type_arguments(column.shown_type) for column in self.columns.physical
        }
        for column in self.columns.all:
            if isinstance(column, ComputedColumn):
                with suppress(Untranslatable):  # queries of the table report it
                    kinds[column.name.lower()] = infer(parse_typed_expression(column.expression, kinds))
        return [(column.name.lower(), kinds.get(column.name.lower())) for column in self.columns.all]

    @property
    def local_event_time(self) -> str | None:
        """Return the column of the watermark if it has no time zone: Spark's watermarks are of TIMESTAMPs only."""
        if self.columns.watermark is None:
            return None
        for column in self.columns.all:
            if column.name == self.columns.watermark[0]:
                zoned = isinstance(column, PhysicalColumn) and column.shown_type == "TIMESTAMP"
                zoned |= isinstance(column, ComputedColumn) and "_LTZ" in column.expression.upper()
                return None if zoned else column.name
        return None

    def full_name(self, stream: str) -> str:
        """Return the name of a stream as a Spark table."""
        return quote_all((self.catalog, str(self.options.scope), stream))

    def define(self, findings: Findings) -> list[str]:
        """Return the CREATE TABLE of each stream, and then of all sources as one. Raises Untranslatable."""
        properties = self._collect_properties(findings)
        lines = [self._declare(column) for column in self._list_stored()]
        comment = f" COMMENT {quote_text(self.comment)}" if self.comment else ""
        definition = [
            f"CREATE TABLE IF NOT EXISTS {self.full_name(stream)} (\n  "
            + ",\n  ".join(lines)
            + f"\n) USING pravega{comment} TBLPROPERTIES {format_options(properties)}"
            for stream in self.streams
        ]
        return [*definition, *self._define_several(comment)]

    def _define_several(self, comment: str) -> list[str]:
        if self.several is None:
            return []
        name, streams = self.full_name(self.several), format_options({"streams": ",".join(self.options.sources)})
        # Refused if the name is that of a stream, whose events would be read in place of these.
        return [
            f"CREATE TABLE IF NOT EXISTS {name} USING pravega{comment} TBLPROPERTIES {streams}",
            f"ALTER TABLE {name} SET TBLPROPERTIES {streams}",
        ]

    def name_target(self, options: TableOptions) -> str:
        """Return the target of INSERT INTO, with its options. Raises Untranslatable for a table without a sink."""
        if options.sink is None:
            raise Untranslatable(f"The table {self.name} has no 'sink.stream', so it can only be read")
        hint = f" WITH {format_options(options.writing)}" if options.writing else ""
        return f"{self.full_name(options.sink)}{hint}"

    def convert_rows(self, query: str, names: Sequence[str]) -> str:
        """Return a query for the stored rows: those of `query`, with milliseconds where the table has them."""
        columns = {column.name: column for column in self.columns.physical}
        written = [columns.get(name) for name in names] if names else list(self.columns.physical)
        if not any(column is not None and column.millis for column in written):
            return query
        shown = ", ".join(
            _convert_written(column, name) for column, name in zip(written, names or list(columns), strict=True)
        )
        return f"SELECT {shown}\nFROM (\n{query}\n) AS rows ({', '.join(map(quote, names or columns))})"

    def build_relation(self, *, streaming: bool, findings: Findings, zone: Zone, options: TableOptions) -> str:
        """Return the relation for FROM, without an alias: with computed columns and, for a stream, the watermark."""
        if not options.sources:
            raise Untranslatable(f"The table {self.name} has no 'scan.streams', so it can only be written")
        if streaming and options.format in CHANGES:
            raise Untranslatable(
                f"{self.name} is a table of changes, so its rows change: read FROM STREAM ... CHANGES FROM VERSION and "
                "the columns _change_type and _commit_version, or set 'execution.runtime-mode' to 'batch'"
            )
        read = self._scan(streaming, options)
        watermark = ""
        if streaming and self.columns.watermark is not None:
            column, text = self.columns.watermark
            watermark = f" WATERMARK {quote(column)} DELAY OF {translate_delay(column, text)}"
        stored = self._list_stored()
        event_time = self.local_event_time if streaming else None
        as_stored = stored == self.columns.all and event_time is None and not any(column.millis for column in stored)
        if as_stored and len(read) == 1:
            return read[0] + watermark
        names = ", ".join(quote(column.name) for column in stored)
        if any(isinstance(column, MetadataColumn) for column in self.columns.all):
            names += ", _event_pointer"
        source = read[0]
        if len(read) > 1:
            source = "(" + " UNION ALL ".join(f"SELECT {names} FROM {scan}" for scan in read) + ")"
        shown = ", ".join(self._select(column, stored, event_time, findings, zone) for column in self.columns.all)
        return f"(SELECT {shown} FROM {source}){watermark}"

    def _scan(self, streaming: bool, options: TableOptions) -> list[str]:
        """Return the relations that have the rows: that of all sources, or one of each source with its stream cuts."""
        of_several = self.several if options.sources == self.options.sources else None
        if of_several is not None and not options.starts and not options.ends:
            return [self._scan_table(of_several, streaming, options.reading)]
        read = []
        for number, source in enumerate(options.sources):
            options_of_stream = dict(options.reading)
            if options.starts:
                options_of_stream["start-stream-cut"] = options.starts[number]
            if options.ends:
                options_of_stream["end-stream-cut"] = options.ends[number]
            read.append(self._scan_table(source, streaming, options_of_stream))
        return read

    def _scan_table(self, name: str, streaming: bool, options: Mapping[str, str]) -> str:
        suffix = f" WITH {format_options(options)}" if options else ""
        return f"{'STREAM ' if streaming else ''}{self.full_name(name)}{suffix}"

    def _list_stored(self) -> list[PhysicalColumn]:
        """Return the columns of the table in Spark. Those of raw and text tables have fixed names."""
        physical = self.columns.physical
        if self.options.format != "raw":
            return physical
        if len(physical) != 1 or physical[0].type not in ("BINARY", "STRING"):
            raise Untranslatable("A table of format 'raw' has exactly one column here, of type BYTES or STRING")
        name = "event" if physical[0].type == "BINARY" else "value"
        return [PhysicalColumn(name, physical[0].type)]

    def _collect_properties(self, findings: Findings) -> dict[str, str]:
        properties = dict(self.options.properties)
        names = {column.name for column in self.columns.physical}
        kinds = " ".join(column.type for column in self.columns.physical)
        if self.options.format == "raw":
            properties["format"] = "raw" if self._list_stored()[0].type == "BINARY" else "text"
        if properties.get("format") == "avro" and "framing" not in properties and "TIMESTAMP" in kinds:
            # Flink reads the number as milliseconds, whatever the schema of the event says.
            properties["avro.timestamp"] = "millis"
        key = properties.get("routing-key")
        if key is not None and (key not in names or self.options.format == "raw"):
            raise Untranslatable(f"The routing key '{key}' is not a column of the events")
        if self.columns.primary_key:
            if self.options.format in CHANGES:
                properties["primary-key"] = ",".join(self.columns.primary_key)
            else:
                findings.note("PRIMARY KEY ... NOT ENFORCED is left out: it does not affect events")
        elif self.options.format in CHANGES:
            findings.check("The table of changes has no PRIMARY KEY, so equal rows are counted: see docs/debezium")
        if self.options.propagates_watermarks:
            properties |= self._translate_noted_times(names, findings)
        return properties

    def _translate_noted_times(self, stored: set[str], findings: Findings) -> dict[str, str]:
        """Return the properties by which writers note the time of the watermark's column, less its delay."""
        column, text = self.columns.watermark or ("", "")
        if column not in stored:
            findings.check(
                "'sink.enable.watermark-propagation' needs the property 'event-time', which names a stored column"
            )
            return {}
        delay = parse_delay(column, text)
        length = timedelta() if delay is None else measure_interval(delay)
        if length is None:
            findings.check(
                f"No times are noted: the watermark {text} has no delay in days, hours, minutes or seconds. Set the "
                "properties 'event-time' and 'event-time.delay'"
            )
            return {}
        milliseconds = -(-length // MILLISECOND)  # rounded up
        return {"event-time": column, **({"event-time.delay": format_duration(milliseconds)} if length else {})}

    def _declare(self, column: PhysicalColumn) -> str:
        required = " NOT NULL" if column.required else ""
        comment = f" COMMENT {quote_text(column.comment)}" if column.comment else ""
        return f"{quote(column.name)} {column.type}{required}{comment}"

    def _select(
        self,
        column: PhysicalColumn | ComputedColumn | MetadataColumn,
        stored: list[PhysicalColumn],
        event_time: str | None,
        findings: Findings,
        zone: Zone,
    ) -> str:
        name = quote(column.name)
        match column:
            case ComputedColumn():
                tree = translate_functions(parse_typed_expression(column.expression, dict(self.output)), findings, zone)
                value = tree.sql(dialect=SparkOutput, normalize_functions=False, comments=False)
            case MetadataColumn():
                value = "_event_pointer"
            case PhysicalColumn(millis="TIMESTAMP"):
                value = f"timestamp_millis({name})"
            case PhysicalColumn(millis=str()):
                value = f"timestampadd(MILLISECOND, {name}, {_1970})"
            case _:
                value = quote(stored[0].name) if self.options.format == "raw" else name
        if column.name == event_time:
            value = f"CAST({value} AS TIMESTAMP)"
        return name if value == name and not isinstance(column, ComputedColumn) else f"{value} AS {name}"

    def check_metadata(self, findings: Findings) -> None:
        """Add findings about metadata columns. Raises Untranslatable for keys that are not Pravega's."""
        for column in self.columns.all:
            if isinstance(column, MetadataColumn):
                if column.key != _EVENT_POINTER:
                    raise Untranslatable(
                        f"Column {column.name}: there is no metadata '{column.key}' here; of tables of changes, "
                        "`<stream>$changelog` has the columns source and ts"
                    )
                findings.check(f"{column.name} is the event pointer as text in the form of Java's client, not as bytes")


def _convert_written(column: PhysicalColumn | None, name: str) -> str:
    if column is None or not column.millis:
        return quote(name)
    if column.millis == "TIMESTAMP":
        return f"unix_millis(CAST({quote(name)} AS TIMESTAMP))"
    return f"timestampdiff(MILLISECOND, {_1970}, CAST({quote(name)} AS TIMESTAMP_NTZ))"


def translate_delay(column: str, text: str) -> str:
    """Return the delay of a watermark `column - INTERVAL ...`. Raises Untranslatable for another expression."""
    delay = parse_delay(column, text)
    return "INTERVAL '0' SECOND" if delay is None else delay.sql(dialect=SparkOutput, comments=False)


def parse_delay(column: str, text: str) -> exp.Interval | None:
    """Parse the delay of a watermark `column - INTERVAL ...`, or None. Raises Untranslatable for another expression."""
    tree = parse_expression(text)
    if isinstance(tree, exp.Column) and tree.name == column:
        return None
    if isinstance(tree, exp.Sub) and isinstance(tree.this, exp.Column) and tree.this.name == column:
        behind = tree.expression
        if isinstance(behind, exp.Interval):
            return behind
    raise Untranslatable(
        f"The watermark is {text}; Spark's watermark is a column and a delay: {column}, or {column} - INTERVAL '5' "
        "SECOND"
    )


def parse_expression(text: str) -> exp.Expr:
    """Parse a Flink SQL expression. Raises Untranslatable."""
    try:
        return sqlglot.parse_one(text, read=Flink)
    except ParseError as error:
        raise Untranslatable(f"{text} cannot be read: {explain_parse_error(error)}") from error


def parse_typed_expression(text: str, kinds: Mapping[str, str | None]) -> exp.Expr:
    """Parse an expression whose columns have these types, by name in lower case. Raises Untranslatable."""
    tree = parse_expression(text)
    for column in tree.find_all(exp.Column):
        if not column.table:
            remember(column, kinds.get(column.name.lower()))
    return tree


def explain_parse_error(error: ParseError) -> str:
    """Return the parser's reason, without the text that it shows with marks for terminals."""
    text = str(error.errors[0]["description"]) if error.errors else str(error).split("\n")[0]
    text = re.sub(r"<Token .*?STRING, text: .*, line: .*>", "a text", text, flags=re.DOTALL)  # it may be a password
    return re.sub(r"<Token .*?, text: (.*?), line: .*>", r"'\1'", text).rstrip(".")
