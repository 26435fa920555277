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
    "DELETE": "events cannot be taken out of a stream. Filter when reading, or write the rest to a new table",
    # Spark hands both to a table as one call.
    "TRUNCATE TABLE or DELETE without WHERE": "a table is not emptied and kept. Use DROP TABLE and CREATE TABLE, or "
    "the table property 'retention.type'",
    "UPDATE": "events cannot be changed. Append the new state with INSERT INTO and read the newest row of each key",
    "MERGE": "events cannot be changed. Append the new state with INSERT INTO and read the newest row of each key",
    "REPLACE TABLE": "a stream's events would be lost. Use DROP TABLE and CREATE TABLE, or another table name",
    "CREATE OR REPLACE TABLE": "a stream's events would be lost. Use CREATE TABLE IF NOT EXISTS, or DROP TABLE first",
    "RENAME": "Pravega has no rename. Create a table of the new name and INSERT INTO it from the old one",
    "VERSION AS OF": "tables are read as they are now. Use the read option 'end-stream-cut' to read up to a position",
    "TIMESTAMP AS OF": "tables are read as they are now. Use the read option 'end-stream-cut' to read up to a position",
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
    "ALTER TABLE": "properties, the comment and columns can be changed. Create another table, and INSERT INTO it",
    "ALTER NAMESPACE": "a scope has no comment, location or properties to change",
    "CREATE TABLE ... USING pravega in spark_catalog": "Spark does not hand a table's options to this source. Create "
    "it in a catalog of class io.github.pysparkpravega.PravegaCatalog, or CREATE TEMPORARY VIEW ... USING pravega "
    "OPTIONS (...)",
    "CREATE EXTERNAL TABLE": "a table's data is its Pravega stream. Leave EXTERNAL out; a stream that exists already "
    "becomes a table by CREATE TABLE",
    "CREATE NAMESPACE with COMMENT, LOCATION or DBPROPERTIES": "a scope has no place for them. Leave them out",
}


def refusal(statement: str, name: str) -> str:
    """Return the sentence that refuses a statement on a table or namespace."""
    kind = "ALTER TABLE" if statement.startswith("ALTER TABLE") else statement
    reason = _INSTEAD.get(kind, "streams do not support it")
    return f"{statement} is not possible on {name}: {reason}."


def refuse_consumer(options: Options, what: str) -> None:
    """Raise InvalidOptionError if a read that can have no consumer is given one; `what` it is."""
    if options.get(CONSUMER) is not None:
        raise InvalidOptionError(
            f"'{options.name(CONSUMER)}' is given, but {what} has no consumer. It is an option of streaming queries: "
            "spark.readStream.option('consumer', '...').table('...'). Leave it out."
        )
