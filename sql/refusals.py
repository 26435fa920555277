"""Describe what streams and key-value tables cannot do, and what to use instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pyspark_pravega.errors import InvalidOptionError

from . import options as o
from .identifiers import quote

_ADAPTER = (
    "build the session with pyspark_pravega.configure(SparkSession.builder), or start it with `pyspark-pravega "
    "pyspark` or `pyspark-pravega submit`"
)
_BY_KEY = (
    "Tables of changes and key-value tables have UPDATE, MERGE, DELETE and outputMode('update'): CREATE TABLE ... "
    "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='...'), or 'format'='kvtable'"
)
_CHANGED = (
    f"events cannot be changed. Append the new state with INSERT INTO and read the newest row of each key. {_BY_KEY}"
)
_APPEND = (
    "DataFrames add rows by df.writeTo('<table>').append(), in place of createOrReplace() and of mode('overwrite') "
    "with saveAsTable"
)
_USUAL_CATALOG = "pravega"
"""The catalog's name by default, in `configure` and in the commands."""
_INSTEAD = {
    "INSERT OVERWRITE": "a stream only grows. Use INSERT INTO, or write to a new table and drop the old one",
    "mode('overwrite')": "a stream only grows. Use mode('append'), or write to a new stream and delete the old one",
    "DELETE": "single events cannot be removed from a stream. Filter when reading, write the rest to a new table, or "
    f"empty a table that has no lake with TRUNCATE TABLE. {_BY_KEY}",
    "UPDATE": _CHANGED,
    "upsert": _CHANGED,
    "MERGE": f"{_CHANGED}. MERGE with only WHEN NOT MATCHED THEN INSERT works",
    "INSERT ... FROM STREAM": "a session runs an INSERT once, and a stream has no end. Write "
    "spark.readStream.table('<source>').writeStream.option('checkpointLocation', '...').toTable('<table>'); or, with "
    "Spark 4.3, let `pyspark-pravega run job.sql` run the statement, which starts it as a streaming query, or start "
    "its query by CALL <catalog>.system.start_query(name => '...', query => '...', into => '...', checkpoint => '...')",
    "SELECT ... FROM STREAM": "its rows have no end, and a client of SQL waits for it. Leave STREAM out for the rows "
    "so far; or write INSERT INTO <table> SELECT ... FROM STREAM in a script that `pyspark-pravega run job.sql` runs; "
    "or, in Python, spark.readStream.table('<table>').writeStream.format('console').start()",
    "CREATE TABLE ... AS SELECT FROM STREAM": "a session runs the query once, and a stream has no end. Use CREATE "
    "TABLE with columns, and then INSERT INTO <table> SELECT ... FROM STREAM in a script that `pyspark-pravega run "
    "job.sql` runs, which needs Spark 4.3; or write ....writeStream.option('checkpointLocation', '...')"
    ".toTable('<table>'), which creates it",
    "CHANGES without FROM": "Spark reads the word as an alias, and shows the rows of the table. Write CHANGES FROM "
    "VERSION 1, or CHANGES FROM TIMESTAMP '2026-01-31 12:00:00'; if you mean an alias, write AS changes",
    "CHANGES FROM": "Spark has it from 4.2 on. Use CREATE TEMPORARY VIEW changes USING pravega OPTIONS (scope "
    "'<namespace>', stream '<table>', changes 'true', startingVersion '1'), and query that; or spark.readStream"
    ".format('pravega') with these options",
    "CREATE TABLE ... LIKE": "Spark has it for tables of catalogs from 4.2 on. Use CREATE TABLE with the columns and "
    "properties that SHOW CREATE TABLE shows",
    "INSERT WITH SCHEMA EVOLUTION": "Spark has it from 4.2 on. Use ALTER TABLE <table> ADD COLUMN, then INSERT INTO "
    "<table> BY NAME",
    "COMMENT ON COLUMN": "Spark has it from 4.3 on. Use ALTER TABLE <table> ALTER COLUMN <column> COMMENT '...'",
    "A column of type TIME": "this session has no such type. SET spark.sql.timeType.enabled = true, which Spark has "
    "from 4.1 on, or declare the column as STRING",
    "CREATE VIEW": "Spark supports views in such a catalog from 4.2 on. Create the view in spark_catalog, with the "
    "full names of the tables that it reads, or use CREATE TEMPORARY VIEW",
    "DESCRIBE HISTORY": "that is a Delta statement. The versions are the rows of a table here: SELECT * FROM "
    "<table>.history",
    "DESCRIBE DETAIL": "that is a Delta statement. Use DESCRIBE TABLE EXTENDED, SHOW TBLPROPERTIES, and SELECT * "
    "FROM <table>.segments for what is stored",
    "OPTIMIZE": "that is a Delta statement. A stream has no files to rewrite: Pravega moves events to its long-term "
    "storage by itself. Leave the statement out; CALL <catalog>.system.compact_history(...) shortens the commit log, "
    "compact_changes(...) the stream of a table of changes, and compact_lake(...) writes larger files of a lake",
    "compact_changes": "its rows are its events, none of which replaces another. CALL "
    "<catalog>.system.truncate_stream(...) removes old events, and so does the table property 'retention.type'",
    "VACUUM": "that is a Delta statement. A stream leaves no unused files. The table properties "
    "'retention.type' and 'retention.minimum' remove old events, and so does CALL "
    "<catalog>.system.truncate_stream(...); remove_orphans(...) removes unused files of a lake",
    "RESTORE TABLE": "that is a Delta statement, and a stream only grows. Read the table as it was with VERSION AS "
    "OF, and INSERT those rows INTO another table",
    "ALTER TABLE ... EXECUTE": "that is a Trino statement. Use CALL for procedures: CALL "
    "<catalog>.system.truncate_stream(...) removes old events, and so does the table property 'retention.type'; a "
    "stream has no files to rewrite. SHOW PROCEDURES IN <catalog>.system lists all",
    "ALTER TABLE ... TAG": "that is an Iceberg statement. Use CALL <catalog>.system.create_tag(...) and "
    "drop_tag(...), and SELECT * FROM <table>.tags",
    "ALTER TABLE ... BRANCH": "that is an Iceberg statement, and a stream has no branches. INSERT INTO another "
    "table; CALL <catalog>.system.create_tag(...) gives a version a name",
    "ALTER TABLE ... PARTITION FIELD": "that is an Iceberg statement. Rows are spread over segments by the table "
    "property 'routing-key'; 'scaling.type' and 'scaling.min-segments' say how many segments there are",
    "ALTER TABLE ... WRITE": "that is an Iceberg statement. Events with equal routing keys stay in the order in "
    "which they are written; ORDER BY sorts what a query reads",
    "ALTER TABLE ... IDENTIFIER FIELDS": "that is an Iceberg statement. Key columns are the table property "
    "'primary-key' of tables of changes and of key-value tables",
    "REPLACE TABLE": "a stream's events would be lost. Use DROP TABLE and CREATE TABLE, or another table name",
    "CREATE OR REPLACE TABLE": "a stream's events would be lost. Use CREATE TABLE IF NOT EXISTS, or DROP TABLE first. "
    f"{_APPEND}",
    "RENAME": "Pravega cannot rename a stream. Create a table of the new name and INSERT INTO it from the old one",
    "trigger(continuous)": "Spark's continuous processing is not supported. Leave the trigger out, or use "
    "trigger(processingTime='0 seconds')",
    "trigger(realTime)": "its transaction would be committed when a batch ends, minutes later. Set the write option "
    "'write-mode' to 'at-least-once', which stores each row as it comes, or use another trigger",
    "writeStream.outputMode('complete')": "a stream only grows, and events cannot be replaced by a new result. Use "
    "outputMode('append'), with a watermark if the query aggregates; or write into a table of changes, with a "
    "'primary-key'",
    "writeStream.outputMode('update')": "events cannot be changed. Use outputMode('append'), with a watermark if the "
    "query aggregates; or append the updated rows in foreachBatch with outputMode('update'). "
    f"{_BY_KEY}",
    **{
        f"{use} without the adapter's jar": _ADAPTER
        for use in ("Writing with 'insert.conflict'='fail'", "readStream", "writeStream", "option('changes', 'true')")
    },
    "ANALYZE TABLE ... PARTITION": "a stream has no SQL partitions. Leave PARTITION out",
    "ANALYZE TABLE ... FOR COLUMNS": "column statistics are not kept. Leave the statement out; Spark plans with the "
    "bytes that a query reads",
    "LOAD DATA": "a stream takes rows, not files. Read the files with Spark, and write the rows: INSERT INTO <table> "
    "SELECT * FROM parquet.`<path>`",
    **dict.fromkeys(
        ("MSCK REPAIR TABLE", "ALTER TABLE ... RECOVER PARTITIONS"),
        "a stream has no partitions to find. Leave the statement out; every query finds new segments",
    ),
    "ALTER TABLE ... SET SERDE": "events are encoded as the table property 'format' says, which is fixed when a table "
    "is created. Create another table, and INSERT INTO it",
    "CREATE INDEX": "a stream has no indexes. Conditions on _segment and _offset limit what is read",
    "DROP INDEX": "a stream has no indexes",
    "DESCRIBE TABLE ... AS JSON": "Spark writes that JSON for its own tables only. Use DESCRIBE TABLE EXTENDED, SHOW "
    "TBLPROPERTIES, or spark.table('...').schema.json() for the columns",
    "ALTER TABLE": "properties, the comment and columns can be changed. Create another table, and INSERT INTO it",
    "ALTER NAMESPACE ... SET LOCATION": "a namespace is a Pravega scope, and has no other location",
    "ALTER NAMESPACE ... SET DEFAULT COLLATION": "a namespace has none",
    "CREATE TABLE ... USING pravega in spark_catalog": "Spark does not hand a table's options to this source. Create "
    "it in a catalog of class io.github.pysparkpravega.PravegaCatalog, or CREATE TEMPORARY VIEW ... USING pravega "
    "OPTIONS (...)",
    "CREATE EXTERNAL TABLE": "a table's data is its Pravega stream. Leave EXTERNAL out; CREATE TABLE makes a table of "
    "a stream that exists already",
    "CREATE NAMESPACE with LOCATION": "a namespace is a Pravega scope, and has no other location. Leave LOCATION out",
    "CREATE NAMESPACE with DEFAULT COLLATION": "a namespace has no collation. Leave it out",
}
"""What streams, namespaces and all tables cannot do."""

_NO_KEY = (
    "it has no primary key, by which rows are found. Declare one by the table property 'primary-key', for example "
    "ALTER TABLE ... SET TBLPROPERTIES ('primary-key'='id')"
)
_OF_CHANGES = {
    **dict.fromkeys(("DELETE", "UPDATE", "upsert", "MERGE", "compact_changes"), _NO_KEY),
    "writeStream.outputMode('complete')": _NO_KEY,
    "readStream": "its rows change as events arrive. Use spark.readStream.changes('<catalog>.<namespace>.<table>') for "
    "what changes (in SQL FROM STREAM <table> CHANGES), or read the table `<stream>$changelog` as a stream, whose rows "
    "are the events",
    "follow": "its rows change as events arrive. Follow its events: load the table `<stream>$changelog`",
    "replay_dead_letter": "its events are changes of rows, and their order matters",
    "Reading as one of several streams": "its events are changes of rows. Name `<stream>$changelog`, whose rows are "
    "the events, or combine the tables with UNION ALL",
}
"""What tables of changes cannot do, besides what no table can."""

_OF_METADATA = {
    "readStream.table": "its rows are computed for each query, and are not events. Read it with spark.read.table, for "
    "example in foreachBatch",
    "TRUNCATE TABLE": "it describes a stream, and can only be read",
}
"""What metadata tables cannot do, besides what no table can."""

_OF_VIEWS = {
    "Writing": "it is a view, which has no rows of its own. Write to the tables that its query reads",
    "VERSION AS OF": "it is a view, which has no versions. Write the query with VERSION AS OF or TIMESTAMP AS OF after "
    "the tables that it reads; SHOW CREATE TABLE shows it",
    "CHANGES": "it is a view, which has no changes of its own. Read the changes of the tables in its query; SHOW "
    "CREATE TABLE shows it",
    "WITH ('mode'=...)": "it is a view, which has no events of its own. Give the option to the tables in its query",
    "WITH ('schema-version'=...)": "it is a view. Give the option to the tables in its query",
    "WITH SCHEMA EVOLUTION": "Spark follows changed columns in its own views only. Use WITH SCHEMA COMPENSATION, and "
    "ALTER VIEW ... AS when columns have changed",
    "CREATE VIEW ... WITH METRICS": "views of metrics are not supported. Create a view of a query, or one in "
    "spark_catalog",
    "CREATE VIEW ... FROM STREAM": "a view shows all rows. Leave STREAM out, or create a temporary view of the stream",
    "CALL": "it is a view, which has no events of its own. Name one of the tables that its query reads",
    "load_table": "it is a view. Its query is Spark's SQL: read it with Spark, or load the tables that it reads",
}
"""What views cannot do, besides what no table can."""

_OF_ENTRIES = {
    "INSERT OVERWRITE": "rows that are not in the query would stay, because there is no transaction over a key-value "
    "table. Use INSERT INTO, which replaces the rows of the same keys, after TRUNCATE TABLE if the other rows should "
    "go",
    "REPLACE TABLE": "its rows would be lost. Use DROP TABLE and CREATE TABLE, or another table name",
    "CREATE OR REPLACE TABLE": "its rows would be lost. Use CREATE TABLE IF NOT EXISTS, or DROP TABLE first. "
    f"{_APPEND}",
    "readStream": "a key-value table keeps no history that could be read as a stream. Read it with spark.read, for "
    "example in foreachBatch, or write the changes to a stream too",
    "CHANGES": "a key-value table keeps no history. Write the changes to a stream too",
    "VERSION AS OF": "a key-value table keeps no history. Leave VERSION AS OF and TIMESTAMP AS OF out",
    "upsert": "append replaces the rows of the same keys",
    "size": "it has partitions in place of segments, whose number is the property 'partitions'. Count its rows with "
    "scan().count()",
    "history": "a key-value table keeps no history. Write the changes to a stream too",
    "follow": "a key-value table keeps no history. Read its rows again with scan(), whose filter may name keys; or "
    "append the changes to a stream too, and follow that",
    "schema_versions": "it has no schema in the registry. Its columns are fixed: see `schema`",
    "ALTER TABLE": "the keys and the schema of the values of a key-value table are fixed. Create another table, and "
    "INSERT INTO it",
    "writeStream.outputMode('complete')": "rows that the next result lacks would stay. Use outputMode('update'), which "
    "replaces the rows of the same keys",
    "CALL": "it is a key-value table, and procedures are about streams. Name the table of a stream",
}


_SEVERAL_HAVE_NONE = "several streams have no versions in common. Name one of its streams"
_REPLACING_MERGED = (
    "use ALTER TABLE ... SET TBLPROPERTIES ('pattern'='...'), or DROP TABLE, which leaves its streams, and CREATE TABLE"
)
_OF_MERGED = {
    "Writing": "it is several streams, and an event has to go to one. Write to that stream",
    "INSERT OVERWRITE": "it is several streams, and they only grow. INSERT INTO one of them",
    "DELETE": "it is several streams, and their events cannot be changed. TRUNCATE TABLE empties one of them",
    **dict.fromkeys(
        ("UPDATE", "MERGE"), "it is several streams, and their events cannot be changed. INSERT INTO one of them"
    ),
    **dict.fromkeys(("REPLACE TABLE", "CREATE OR REPLACE TABLE"), _REPLACING_MERGED),
    "RENAME": "use DROP TABLE, which leaves its streams, and CREATE TABLE of the other name",
    "CHANGES": f"{_SEVERAL_HAVE_NONE}, or read the table itself with 'start-timestamp' and 'end-timestamp': all of its "
    "rows are inserted ones",
    "VERSION AS OF": f"{_SEVERAL_HAVE_NONE}, or read the table WITH ('end-timestamp'='2026-01-31T12:00:00Z')",
    "history": _SEVERAL_HAVE_NONE,
    "size": "it has no segments of its own. Ask for the size of its streams",
    "schema_versions": "it has no schema of its own. Ask for those of its streams",
    "ALTER TABLE": "its columns are those of its streams. ALTER TABLE these; only its properties 'pattern' and "
    "'streams' and its comment are its own",
    "CALL": "it is several streams. Name one of them",
    "WITH ('schema-version'=...)": "its streams have versions of their own. Read one of them, or leave the option out",
}


def _describe(own: Mapping[str, str], otherwise: str, statement: str, name: str) -> str:
    """Return a statement's refusal, with a reason of the kind's `own`, or else of all tables, or else `otherwise`."""
    general = "ALTER TABLE" if statement.startswith("ALTER TABLE") else statement
    reasons = (reasons.get(key) for reasons in (own, _INSTEAD) for key in (statement, general))
    return f"{statement} is not possible on {name}: {next(filter(None, reasons), otherwise)}."


# Each takes the statement and the name of what it is about, and returns the sentence that refuses it.
describe_refusal = partial(_describe, {}, "streams do not support it")
"""For a stream's table or a namespace."""
describe_changes_refusal = partial(_describe, _OF_CHANGES, "tables of changes do not support it")
describe_key_value_refusal = partial(_describe, _OF_ENTRIES, "key-value tables do not support it")
describe_metadata_refusal = partial(_describe, _OF_METADATA, "metadata tables do not support it")
"""For a table whose namespace is a stream."""
describe_view_refusal = partial(_describe, _OF_VIEWS, "views do not support it")
describe_merged_refusal = partial(_describe, _OF_MERGED, "it is several streams, and can only be read")


def describe_session_catalog_refusal(table: str, catalogs: Sequence[str]) -> str:
    """Return the sentence that refuses a table in Spark's own catalog; `catalogs` are the session's Pravega catalogs.

    The sentence names the catalog that is called `pravega`, or else the first one.
    """
    catalog = _USUAL_CATALOG if _USUAL_CATALOG in catalogs else next(iter(catalogs), None)
    full = f"{'<catalog>' if catalog is None else quote(catalog)}.<namespace>.{quote(table)}"
    where = "" if catalogs else ", in a catalog of class io.github.pysparkpravega.PravegaCatalog"
    return (
        f"CREATE TABLE {quote(table)} USING pravega is not possible in spark_catalog: Spark does not hand a table's "
        f"options to this source. Write the full name, CREATE TABLE {full}{where}; or CREATE TEMPORARY VIEW ... USING "
        "pravega OPTIONS (...) for a stream that exists."
    )


def refuse_consumer(options: o.Options, what: str, *, begins: bool = True) -> None:
    """Raise InvalidOptionError if a read that cannot have a consumer is given one, unless it begins there.

    `what` names the read, and `begins` says that it can begin where a consumer stands.
    """
    if options.get(o.CONSUMER) is not None and not (begins and options.get(o.START_STREAM_CUT) == o.AT_CONSUMER):
        hint = f", or give '{o.START_STREAM_CUT.key}'='{o.AT_CONSUMER}' too, to begin where it stands" if begins else ""
        raise InvalidOptionError(
            f"'{options.name(o.CONSUMER)}' is given, but {what} has no consumer. It is an option of streaming queries: "
            "spark.readStream.option('consumer', '...').table('...'). Leave it out"
            f"{hint}."
        )


def refuse_division(options: o.Options) -> None:
    """Raise InvalidOptionError if a streaming query whose events keep their order is told how many tasks to have."""
    for option in (o.MIN_PARTITIONS, o.MAX_BYTES_PER_TASK):
        if options.source(option) is o.Source.QUERY and not options.get(o.UNORDERED):
            raise InvalidOptionError(
                f"'{options.name(option)}'='{options.text(option)}' is given, but a micro-batch reads each segment in "
                "one task, so that events keep their order. Leave it out, or set 'unordered'='true' if the order does "
                "not matter to the query. The table property 'scaling.min-segments' says how many segments there are."
            )


def refuse_streaming_options(options: o.Options, what: str) -> None:
    """Raise InvalidOptionError for options of micro-batches of events, in a read that has none; `what` names it."""
    uses: Sequence[tuple[o.Option[Any], str, str]] = (
        (o.MAX_EVENT_TIME_DRIFT, "bound", "5min"),
        (o.UNORDERED, "divide", "true"),
    )
    for option, use, example in uses:
        if options.get(option):
            raise InvalidOptionError(
                f"'{options.name(option)}'='{options.text(option)}' is given, but {what} has no micro-batches that it "
                f"could {use}. It is an option of streaming queries on the events of a table: "
                f"spark.readStream.option('{option.key}', '{example}').table('...'). Leave it out."
            )
