"""Translate statements that declare catalogs, databases, tables and views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import TokenType

from ..identifiers import quote, quote_all
from .declared_columns import Columns, PhysicalColumn, adapt_to_bare_avro, parse_columns
from .declared_tables import DeclaredTable, format_options, quote_text, translate_delay
from .expressions.zones import NOT_IN_UTC, Zone
from .job import DEFAULT_DATABASE, FlinkCatalog, FlinkName, Job, View
from .query_translator import QueryTranslator, parse_query
from .report import Findings, Untranslatable
from .secrets import show_value
from .statements import TEXTS, Cursor, read_options
from .table_options import CONNECTION, SECRETS, note_login_not_copied, strip_login, translate_options

_CATALOG_CLASS = "io.github.pysparkpravega.PravegaCatalog"


def create_catalog(cursor: Cursor, job: Job, findings: Findings) -> list[str]:
    """Translate CREATE CATALOG into confs of the session."""
    exists = cursor.take("IF", "NOT", "EXISTS")
    (name,) = cursor.name()
    cursor.take("WITH")
    options = read_options(cursor.brackets())
    kind = options.pop("type", "")
    if kind != "pravega":
        raise Untranslatable(f"The catalog {name} is of type '{kind}'; Spark has its own catalogs for other stores")
    if exists and name in job.catalogs:
        return []
    database = options.pop("default-database", None)
    form = options.pop("serialization.format", "Avro").lower()
    if database is None or form not in ("avro", "json"):
        raise Untranslatable("A catalog needs 'default-database', and 'serialization.format' is Avro or Json")
    catalog = FlinkCatalog(database, form)
    job.catalogs[name] = catalog
    confs = {
        option: strip_login(option, options.pop(option), findings)
        for option in ("schema-registry-uri", *CONNECTION)
        if option in options
    }
    catalog_conf = _build_catalog_conf(name, {"scope": database, **confs})
    if [option for option in SECRETS if options.pop(option, None) is not None]:
        note_login_not_copied("", findings)
    if options.pop("json.ignore-parse-errors", "false").lower() == "true":
        catalog.reading["mode"] = "dropmalformed"
        findings.check("'json.ignore-parse-errors': the whole event is left out here, and is counted")
    for option in options:
        if not option.startswith("json."):
            findings.check(f"The option '{option}' is not known, and was left out")
        elif options[option].lower() not in ("false", "sql", "iso-8601", "fail"):
            findings.check(f"'{option}' = '{show_value(option, options[option])}' has no equivalent, and was left out")
    return catalog_conf


def create_database(cursor: Cursor, job: Job, findings: Findings) -> list[str]:
    """Translate CREATE DATABASE into CREATE NAMESPACE."""
    exists = "IF NOT EXISTS " if cursor.take("IF", "NOT", "EXISTS") else ""
    name = qualify_database(cursor.name(), job)
    if not cursor.ended:
        findings.check("The database's comment and options were left out: a scope cannot keep them")
    return [f"CREATE NAMESPACE {exists}{name}"]


def drop_database(cursor: Cursor, job: Job, findings: Findings) -> list[str]:
    """Translate DROP DATABASE into DROP NAMESPACE."""
    exists = "IF EXISTS " if cursor.take("IF", "EXISTS") else ""
    name = qualify_database(cursor.name(), job)
    return [f"DROP NAMESPACE {exists}{name}{' CASCADE' if cursor.take('CASCADE') else ''}"]


def qualify_database(parts: list[str], job: Job) -> str:
    """Return the name of a database in Spark. Raises Untranslatable for a catalog that has no scopes."""
    catalog = parts[0] if len(parts) == 2 else job.catalog
    if not job.is_pravega(catalog):
        raise Untranslatable(
            f"The database {'.'.join(parts)} is in the catalog {catalog}, which is not a Pravega catalog"
        )
    return quote_all((catalog, parts[-1]))


def create_table(cursor: Cursor, job: Job, findings: Findings) -> list[str]:
    """Translate CREATE TABLE, including with LIKE or AS."""
    exists = cursor.take("IF", "NOT", "EXISTS")
    name = job.complete_name(cursor.name())
    if exists and name in job.tables:
        findings.note(f"{name[2]} is already declared")
        if "TEMPORARY" in cursor.words[:2]:
            findings.check(f"Flink hides {name[2]} behind this one, if the declared one is not temporary: rename it")
        return []
    try:
        return _create_table(cursor, name, job, findings)
    except Untranslatable as error:
        job.broken[name] = str(error)
        raise


def _create_table(cursor: Cursor, name: FlinkName, job: Job, findings: Findings) -> list[str]:
    columns = parse_columns(cursor.statement, cursor.brackets(), findings)
    comment = cursor.text() if cursor.take("COMMENT") else None
    if cursor.take("PARTITIONED") or cursor.take("PARTITIONED BY"):
        raise Untranslatable("A stream has no partitions: use 'sink.routing-key.field.name'")
    if cursor.take("DISTRIBUTED"):
        raise Untranslatable("A stream has no buckets: use 'sink.routing-key.field.name'")
    options = read_options(cursor.brackets()) if cursor.take("WITH") else {}
    if cursor.take("LIKE"):
        base = job.find_table(job.complete_name(cursor.name()))
        if not cursor.ended:
            raise Untranslatable(
                "LIKE with INCLUDING or EXCLUDING is not translated: write out the columns and options"
            )
        inherited = [replace(column, type=column.shown_type, millis=None) for column in base.columns.physical]
        names = {column.name: column for column in inherited}
        columns.all = [*(names.get(column.name, column) for column in base.columns.all), *columns.all]
        columns.primary_key = columns.primary_key or base.columns.primary_key
        columns.watermark = columns.watermark or base.columns.watermark
        options = {**job.written_options.get(id(base), {}), **options}
    table = _build_table(name, options, job, findings)
    table.columns, table.comment = columns, comment
    job.check_streams(table)
    table.several = job.name_several(table)
    if not cursor.ended and cursor.words[cursor.at] != "AS":
        word = "A text" if cursor.tokens[cursor.at].token_type in TEXTS else f"'{cursor.text()}'"
        raise Untranslatable(f"{word} is not expected after the options of a table")
    if table.options.format == "avro" and table.options.properties.get("framing") == "none":
        columns.all = [
            adapt_to_bare_avro(column) if isinstance(column, PhysicalColumn) else column for column in columns.all
        ]
        for column in columns.physical:
            if column.millis:
                findings.note(f"{column.name} is stored in milliseconds, as in Flink's Avro; queries see a timestamp")
    table.check_metadata(findings)
    if cursor.take("AS"):
        return _create_as(cursor.rest(), table, name, job, findings)
    definition = table.define(findings)
    if columns.watermark:
        translate_delay(*columns.watermark)  # raises for a watermark that Spark does not support
    job.tables[name] = table
    job.broken.pop(name, None)
    job.written_options[id(table)] = options
    return [*_connect_catalog(table, job, findings), *_set_event_time_zone(table, job, findings), *definition]


def _set_event_time_zone(table: DeclaredTable, job: Job, findings: Findings) -> list[str]:
    """Return the SET of the time zone in which event time without a zone keeps its meaning."""
    if not table.options.streaming or not table.options.sources or table.local_event_time is None:
        return []
    job.local_event_time = True
    if job.zone.name is not None:
        if not job.zone.is_utc:
            findings.check(NOT_IN_UTC)
        return []
    job.zone = Zone("UTC", chosen=True)
    timed = table.local_event_time
    text = f"Spark's event time is a TIMESTAMP: {timed}, a TIMESTAMP in Flink, is read as a time in UTC"
    if any("TIMESTAMP" in column.shown_type.replace("TIMESTAMP_NTZ", "") for column in table.columns.physical):
        findings.check(f"{text}; the table's TIMESTAMP_LTZ columns are shown in UTC, too")
    else:
        findings.note(text)
    return ["SET spark.sql.session.timeZone = UTC"]


def _build_table(name: FlinkName, options: Mapping[str, str], job: Job, findings: Findings) -> DeclaredTable:
    connector = options.get("connector")
    if (catalog := job.catalogs.get(name[0])) is not None:
        flink_options = {"scope": name[1], "scan.streams": name[2], "sink.stream": name[2], "format": "raw", **options}
        if connector not in (None, "pravega"):
            raise Untranslatable(f"A catalog of Pravega has no connector '{connector}'")
        translated_options = translate_options(flink_options, findings)
        if "format" not in options:
            translated_options.format = catalog.format
            translated_options.properties |= {"format": catalog.format}
        translated_options.reading = {**catalog.reading, **translated_options.reading}
        return DeclaredTable(name[2], name[0], Columns(), translated_options)
    if connector != "pravega":
        raise Untranslatable(
            f"The connector '{connector}' is not translated: declare the table in Spark, with USING and OPTIONS"
            if connector
            else "The table has no connector"
        )
    translated_options = translate_options(options, findings)
    if not translated_options.scope:
        raise Untranslatable("The table has no 'scope'")
    if not translated_options.sources and not translated_options.sink:
        raise Untranslatable("The table has neither 'scan.streams' nor 'sink.stream'")
    spark_catalog = job.choose_catalog(translated_options.connection.get("controller-uri"))
    return DeclaredTable(name[2], spark_catalog, Columns(), translated_options)


def _connect_catalog(table: DeclaredTable, job: Job, findings: Findings) -> list[str]:
    """Say how the catalog of a table connects: the first by arguments of `run`, others by confs of the session."""
    if table.catalog in job.catalogs:
        return []
    told = job.connected.get(table.catalog)
    settings = job.connected.setdefault(table.catalog, {})
    connection = {key: text for key, text in table.options.connection.items() if settings.get(key) != text}
    for key in [key for key in connection if key in settings]:
        findings.check(f"'{key}' = '{connection.pop(key)}' is left out: the catalog already has '{settings[key]}'")
    settings.update(connection)
    if table.catalog != job.spark_catalog:
        return _build_catalog_conf(table.catalog, connection) if connection or told is None else []
    arguments = [f"--{key} {connection[key]}" for key in ("controller-uri", "schema-registry-uri") if key in connection]
    if arguments:
        findings.note(f"The catalog {table.catalog} is the one of `pyspark-pravega run {' '.join(arguments)}`")
    for key in CONNECTION[1:]:
        if key in connection:
            findings.note(f"Give --conf spark.sql.catalog.{table.catalog}.{key}={connection[key]} to it")
    return []


def _build_catalog_conf(name: str, confs: Mapping[str, str]) -> list[str]:
    key = f"spark.sql.catalog.{name}"
    return [f"SET {key} = {_CATALOG_CLASS}", *(f"SET `{key}.{option}` = {text}" for option, text in confs.items())]


def _create_as(text: str, table: DeclaredTable, name: FlinkName, job: Job, findings: Findings) -> list[str]:
    translator = QueryTranslator(job, findings, streaming=False)
    query = translator.translate(parse_query(text))
    if translator.could_stream and not job.batch:
        raise Untranslatable(
            "CREATE TABLE AS of a stream is not translated: create the table with its columns, and INSERT INTO it"
        )
    table.told = True
    job.tables[name] = table
    return [
        f"CREATE TABLE {table.full_name(str(table.options.sink))} USING pravega "
        f"TBLPROPERTIES {format_options(table.options.properties)} AS\n{query}"
    ]


def create_view(cursor: Cursor, job: Job, findings: Findings) -> list[str]:
    """Translate CREATE VIEW into a temporary view of the session."""
    exists = cursor.take("IF", "NOT", "EXISTS")
    name = job.complete_name(cursor.name())
    if exists and name in job.views:
        findings.note(f"{name[2]} is already declared")
        return []
    columns = [token.text for token in cursor.brackets() if token.token_type is not TokenType.COMMA]
    comment = f" COMMENT {quote_text(cursor.text())}" if cursor.take("COMMENT") else ""
    try:
        if not cursor.take("AS"):
            raise Untranslatable("The view has no AS")
        if any(other[2].lower() == name[2].lower() for other in job.views):
            raise Untranslatable(f"There is another view {name[2]}; Spark's views of a session have no database")
        query = parse_query(cursor.rest())
        translator = QueryTranslator(job, findings, streaming=not job.batch)
        text = translator.translate(query)
    except Untranslatable as error:
        job.broken[name] = str(error)
        raise
    output = translator.output
    if len(columns) == len(output):
        output = [(other.lower(), kind) for other, (_, kind) in zip(columns, output, strict=True)]
    job.views[name] = View(name[2], query, translator.reads_stream, columns, output, translator.times)
    names = f" ({', '.join(map(quote, columns))})" if columns else ""
    return [f"CREATE TEMPORARY VIEW {quote(name[2])}{names}{comment} AS\n{text}"]


def drop_view(cursor: Cursor, job: Job, findings: Findings) -> list[str]:
    exists = cursor.take("IF", "EXISTS")
    name = job.complete_name(cursor.name())
    if job.views.pop(name, None) is None and not exists:
        raise Untranslatable(f"The view {name[2]} is not declared in the script")
    return [f"DROP VIEW {'IF EXISTS ' if exists else ''}{quote(name[2])}"]


def drop_table(cursor: Cursor, job: Job, findings: Findings) -> list[str]:
    """Translate DROP TABLE. A table of a connector is a declaration: its stream stays."""
    exists = cursor.take("IF", "EXISTS")
    name = job.complete_name(cursor.name())
    table = job.tables.pop(name, None)
    if job.is_pravega(name[0]):
        return [f"DROP TABLE {'IF EXISTS ' if exists else ''}{quote_all(name)}"]
    if table is None and not exists and name not in job.broken:
        raise Untranslatable(f"The table {name[2]} is not declared in the script")
    job.broken.pop(name, None)
    if table is not None and table.several is not None:
        findings.note(f"Flink forgets {name[2]}; here the table of its streams stays, as the streams do")
        return []
    findings.note(
        f"Flink forgets {name[2]} and keeps its stream; DROP TABLE would delete the stream here, so it is left out"
    )
    return []


def use(cursor: Cursor, job: Job, findings: Findings) -> list[str]:
    """Translate USE and USE CATALOG."""
    if cursor.take("MODULES"):
        raise Untranslatable("Spark has no modules")
    if cursor.take("CATALOG"):
        (job.catalog,) = cursor.name()
        catalog = job.catalogs.get(job.catalog)
        job.database = catalog.database if catalog else DEFAULT_DATABASE
        parts = [job.catalog]
    else:
        parts = cursor.name()
        if len(parts) != 2:
            parts = [job.catalog, parts[-1]]
        job.catalog, job.database = parts
    if not job.is_pravega(job.catalog):
        findings.note(f"The tables of {job.catalog} are named in full")
        return []
    return [f"USE {quote_all(parts)}"]
