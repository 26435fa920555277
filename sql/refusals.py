"""What streams cannot do, and what to use instead."""

from __future__ import annotations

from pyspark_pravega.errors import InvalidOptionError

from .options import CONSUMER, Options

_ADAPTER = (
    "build the session with pyspark_pravega.configure(SparkSession.builder), or start it by `pyspark-pravega pyspark` "
    "or `pyspark-pravega submit`"
)
_INSTEAD = {
    "INSERT OVERWRITE": "a stream only grows. Use INSERT INTO, or write to a new table and drop the old one",
    "mode('overwrite')": "a stream only grows. Use mode('append'), or write to a new stream and delete the old one",
    "DELETE": "single events cannot be taken out of a stream. Filter when reading, write the rest to a new table, or "
    "empty the table with TRUNCATE TABLE",
    "UPDATE": "events cannot be changed. Append the new state with INSERT INTO and read the newest row of each key",
    "MERGE": "events cannot be changed. Append the new state with INSERT INTO and read the newest row of each key",
    "REPLACE TABLE": "a stream's events would be lost. Use DROP TABLE and CREATE TABLE, or another table name",
    "CREATE OR REPLACE TABLE": "a stream's events would be lost. Use CREATE TABLE IF NOT EXISTS, or DROP TABLE first",
    "RENAME": "Pravega has no rename. Create a table of the new name and INSERT INTO it from the old one",
    "readStream": "its rows change as events come. Use spark.readStream.changes('<catalog>.<namespace>.<table>') "
    "for what changes (in SQL FROM STREAM <table> CHANGES), or read the table `<stream>$changelog` as a stream, whose "
    "rows are the events",
    "trigger(continuous)": "Spark's continuous processing is not supported. Leave the trigger out, or use "
    "trigger(processingTime='0 seconds')",
    "writeStream.outputMode('complete')": "a stream only grows, and events cannot be replaced by a new result. Use "
    "outputMode('append'), with a watermark if the query aggregates; or write each result as a batch with foreachBatch",
    "writeStream.outputMode('update')": "events cannot be changed. Use outputMode('append'), with a watermark if the "
    "query aggregates; or append the updated rows in foreachBatch with outputMode('update')",
    "readStream without the adapter's jar": _ADAPTER,
    "writeStream without the adapter's jar": _ADAPTER,
    "ANALYZE TABLE": "there is nothing to compute. Every query asks the servers for the bytes of the segments that it "
    "reads, and Spark plans with them. Leave the statement out",
    "ANALYZE TABLE ... FOR COLUMNS": "a stream keeps no statistics of columns. Leave the statement out; Spark plans "
    "with the bytes of the segments that a query reads",
    "LOAD DATA": "a stream takes rows, not files. Read the files with Spark, and write the rows: INSERT INTO <table> "
    "SELECT * FROM parquet.`<path>`",
    "MSCK REPAIR TABLE": "a stream has no partitions to find. Leave the statement out; every query finds new segments",
    "ALTER TABLE ... RECOVER PARTITIONS": "a stream has no partitions to find. Leave the statement out; every query "
    "finds new segments",
    "ALTER TABLE ... SET SERDE": "events are encoded as the table property 'format' says, which is fixed when a table "
    "is created. Create another table, and INSERT INTO it",
    "CREATE INDEX": "a stream has no indexes. Conditions on _segment and _offset limit what is read",
    "DROP INDEX": "a stream has no indexes",
    "DESCRIBE TABLE ... AS JSON": "Spark makes that JSON of its own tables only. Use DESCRIBE TABLE EXTENDED, SHOW "
    "TBLPROPERTIES, or spark.table('...').schema.json() for the columns",
    "ALTER TABLE": "properties, the comment and columns can be changed. Create another table, and INSERT INTO it",
    "ALTER NAMESPACE ... SET LOCATION": "a namespace is a scope of Pravega, and has no other place",
    "ALTER NAMESPACE ... SET DEFAULT COLLATION": "a namespace has none",
    "CREATE TABLE ... USING pravega in spark_catalog": "Spark does not hand a table's options to this source. Create "
    "it in a catalog of class io.github.pysparkpravega.PravegaCatalog, or CREATE TEMPORARY VIEW ... USING pravega "
    "OPTIONS (...)",
    "CREATE EXTERNAL TABLE": "a table's data is its Pravega stream. Leave EXTERNAL out; a stream that exists already "
    "becomes a table by CREATE TABLE",
    "CREATE NAMESPACE with LOCATION": "a namespace is a scope of Pravega, and has no other place. Leave LOCATION out",
    "CREATE NAMESPACE with DEFAULT COLLATION": "a namespace has none. Leave it out",
}


def refusal(statement: str, name: str) -> str:
    """Return the sentence that refuses a statement on a table or namespace."""
    general = "ALTER TABLE" if statement.startswith("ALTER TABLE") else statement
    reason = _INSTEAD.get(statement) or _INSTEAD.get(general, "streams do not support it")
    return f"{statement} is not possible on {name}: {reason}."


def refuse_consumer(options: Options, what: str) -> None:
    """Raise InvalidOptionError if a read that can have no consumer is given one; `what` it is."""
    if options.get(CONSUMER) is not None:
        raise InvalidOptionError(
            f"'{options.name(CONSUMER)}' is given, but {what} has no consumer. It is an option of streaming queries: "
            "spark.readStream.option('consumer', '...').table('...'). Leave it out."
        )
