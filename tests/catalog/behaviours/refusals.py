"""What is refused, with an error that says why; after it all is as it was."""

from __future__ import annotations

from tests.catalog.behaviours.model import all_with, behaviour, names, refused, rows

OPTION, OPERATION, NAME, TYPE = (
    "PRAVEGA_INVALID_OPTION",
    "PRAVEGA_UNSUPPORTED_OPERATION",
    "PRAVEGA_INVALID_NAME",
    "PRAVEGA_UNSUPPORTED_TYPE",
)
NEW = "CREATE TABLE new (id INT, b STRING) USING pravega "
CHANGE = "ALTER TABLE readings "
INTO = "INSERT INTO readings "

NOT_CREATED = (
    behaviour(
        "an unknown property",
        NEW + "TBLPROPERTIES ('fromat'='avro')",
        refused(OPTION, "{n}.new", "'fromat'", "'avro'", "Did you mean 'format'?"),
    ),
    behaviour(
        "a secret as a property",
        NEW + "TBLPROPERTIES ('pasword'='hunter2-swordfish')",
        refused(OPTION, "'pasword'", "Valid keys"),
    ),
    behaviour(
        "a value that cannot be",
        NEW + "TBLPROPERTIES ('scaling.min-segments'='many')",
        refused(OPTION, "'many'", "'scaling.min-segments'", "expected a whole number"),
    ),
    behaviour(
        "a format that there is not",
        NEW + "TBLPROPERTIES ('format'='parquet')",
        refused(OPTION, "'parquet'", "avro, csv, debezium-avro, debezium-json, json"),
    ),
    behaviour(
        "another source",
        "CREATE TABLE new (id INT) USING parquet",
        refused(OPTION, "{n}.new", "USING parquet", "USING pravega"),
    ),
    behaviour(
        "a routing key that is no column",
        NEW + "TBLPROPERTIES ('routing-key'='idd')",
        refused(OPTION, "'routing-key' names 'idd'", "Did you mean 'id'?"),
    ),
    behaviour(
        "a type that cannot be",
        "CREATE TABLE new (id INT, s STRUCT<a: ARRAY<INTERVAL DAY>>) USING pravega",
        refused(TYPE, "{n}.new", "'s.a.element'", "interval day"),
    ),
    behaviour(
        "a name that cannot be",
        "CREATE TABLE `a b` (id INT) USING pravega",
        refused(NAME, "`a b`", "Use for example `a-b`"),
    ),
    behaviour(
        "a column of a hidden one's name",
        "CREATE TABLE new (id INT, _segment STRING) USING pravega",
        refused(NAME, "_segment", "hidden column"),
    ),
    behaviour(
        "a column twice", "CREATE TABLE new (id INT, ID STRING) USING pravega", refused("COLUMN_ALREADY_EXISTS", "`id`")
    ),
    behaviour("partitions", NEW + "PARTITIONED BY (id)", refused(OPERATION, "(id)", "'routing-key'")),
    behaviour("buckets", NEW + "CLUSTERED BY (id) INTO 4 BUCKETS", refused(OPERATION, "CLUSTERED BY", "'routing-key'")),
    behaviour("a place", NEW + "LOCATION '/tmp/x'", refused(OPERATION, "/tmp/x", "Leave LOCATION out")),
    behaviour(
        "EXTERNAL",
        "CREATE EXTERNAL TABLE new (id INT) USING pravega",
        refused(OPERATION, "EXTERNAL", "Leave EXTERNAL out"),
    ),
    behaviour(
        "constraints",
        "CREATE TABLE new (id INT PRIMARY KEY) USING pravega",
        refused(OPERATION, "PRIMARY KEY"),
        "CREATE TABLE new (id INT, CHECK (id > 0)) USING pravega",
        refused(OPERATION, "CHECK"),
    ),
    behaviour(
        "a default that cannot be",
        "CREATE TABLE new (id INT DEFAULT 'abc') USING pravega",
        refused("INVALID_DEFAULT_VALUE", "`id`"),
    ),
    behaviour("no columns", "CREATE TABLE new USING pravega", refused(TYPE, "{n}.new", "no columns", "Declare them")),
    behaviour(
        "a namespace that there is not",
        "CREATE TABLE {c}.missing.new (id INT) USING pravega",
        refused("SCHEMA_NOT_FOUND", "`missing`"),
    ),
    behaviour(
        "like what there is not", "CREATE TABLE new LIKE missing", refused("TABLE_OR_VIEW_NOT_FOUND", "`missing`")
    ),
    behaviour(
        "in place of another",
        "CREATE OR REPLACE TABLE readings USING pravega AS SELECT 1 AS a",
        refused(OPERATION, "REPLACE TABLE", "{n}.readings", "DROP TABLE first"),
    ),
)

NOT_ALTERED = (
    behaviour("another name", CHANGE + "RENAME TO others", refused(OPERATION, "Pravega cannot rename a stream")),
    behaviour("a column that is there", CHANGE + "ADD COLUMN ID INT", refused("FIELD_ALREADY_EXISTS", "`ID`")),
    behaviour(
        "NOT NULL without a default",
        CHANGE + "ADD COLUMN c INT NOT NULL",
        refused(OPERATION, "Column c", "NOT NULL out"),
    ),
    behaviour(
        "a narrower type", CHANGE + "ALTER COLUMN id TYPE SMALLINT", refused("NOT_SUPPORTED_CHANGE_COLUMN", "`id`")
    ),
    behaviour(
        "the routing key's column",
        CHANGE + "DROP COLUMN sensor",
        refused(OPTION, "{n}.readings", "'routing-key' names 'sensor'"),
    ),
    behaviour(
        "a column that there is not", CHANGE + "RENAME COLUMN nothing TO c", refused("UNRESOLVED_COLUMN", "`nothing`")
    ),
    behaviour(
        "another format", CHANGE + "SET TBLPROPERTIES ('format'='json')", refused(OPTION, "{n}.readings", "'format'")
    ),
    behaviour(
        "a retention without its size",
        CHANGE + "SET TBLPROPERTIES ('retention.type'='time')",
        refused(OPTION, "needs 'retention.minimum'"),
    ),
    behaviour(
        "a connection of its own",
        CHANGE + "SET TBLPROPERTIES ('controller-uri'='tcp://x:1')",
        refused(OPTION, "'controller-uri'"),
    ),
    behaviour("constraints", CHANGE + "ADD CONSTRAINT c UNIQUE (id)", refused(OPERATION, "CONSTRAINT", "{n}.readings")),
    behaviour(
        "what there is not",
        "ALTER TABLE missing SET TBLPROPERTIES ('codec'='gzip')",
        refused("TABLE_OR_VIEW_NOT_FOUND", "`missing`"),
        "TRUNCATE TABLE missing",
        refused("TABLE_OR_VIEW_NOT_FOUND", "`missing`"),
    ),
    behaviour(
        "a table of changes",
        "TRUNCATE TABLE customers",
        refused(OPERATION, "truncate the table in its database"),
        "SELECT count(*) FROM customers",
        rows("2"),
    ),
    behaviour(
        "column statistics",
        "ANALYZE TABLE readings COMPUTE STATISTICS FOR ALL COLUMNS",
        refused(OPERATION, "FOR COLUMNS", "Leave the statement out"),
    ),
    behaviour("indexes", "CREATE INDEX i ON readings (id)", refused(OPERATION, "CREATE INDEX", "{n}.readings")),
    behaviour("files", "LOAD DATA INPATH '/tmp/x' INTO TABLE readings", refused(OPERATION, "LOAD DATA", "INSERT INTO")),
)

# Those that fail in a task have one: the shell may print what others log about their end as late as the next answer.
NOT_INSERTED = (
    behaviour("too few values", "INSERT INTO lines VALUES (3)", refused("INSERT_COLUMN_ARITY_MISMATCH", "`lines`")),
    behaviour(
        "too many values", "INSERT INTO lines VALUES (3, 'x', 1, 2)", refused("INSERT_COLUMN_ARITY_MISMATCH", "`lines`")
    ),
    behaviour(
        "a value of another type",
        "INSERT INTO lines VALUES (array(3), 'z', 1)",
        refused("INCOMPATIBLE_DATA_FOR_TABLE", "`lines`", "`id`"),
    ),
    behaviour(
        "a number that is too large",
        "INSERT INTO lines SELECT id + 3000000000, 'z', 1 FROM range(0, 3, 1, 1)",
        refused("CAST_OVERFLOW_IN_TABLE_INSERT", "`id`"),
    ),
    behaviour(
        "a column that there is not",
        "INSERT INTO lines (id, nothing) VALUES (3, 'z')",
        refused("UNRESOLVED_COLUMN", "`nothing`"),
    ),
    behaviour(
        "a hidden column",
        "INSERT INTO lines (id, _offset) VALUES (3, 4)",
        refused("INCOMPATIBLE_DATA_FOR_TABLE", "`_offset`"),
    ),
    behaviour(
        "NULL as the routing key",
        INTO + "(id, sensor) VALUES (7, NULL)",
        refused("PRAVEGA_INVALID_ROW", "{s}/readings", "'sensor' is null", "coalesce(sensor, ...)"),
        "SELECT count(*) FROM readings",
        rows("6"),
    ),
    behaviour(
        "an event that is too large",
        "INSERT INTO words SELECT repeat('x', 8 * 1024 * 1024 + 1)",
        refused("PRAVEGA_EVENT_TOO_LARGE", "{s}/words", "8,388,608", "Split the row"),
        "SELECT count(*) FROM words",
        rows("3"),
    ),
    behaviour(
        "an error in the middle",
        "INSERT INTO lines SELECT CAST(1 / (id - 50) AS INT), 'z', 1 FROM range(0, 100, 1, 1)",
        refused("DIVIDE_BY_ZERO"),
    ),
    behaviour(
        "an unknown option",
        "INSERT INTO lines WITH ('trasaction.lease'='20s') VALUES (3, 'z', 1)",
        refused(OPTION, "{n}.lines", "Did you mean 'transaction.lease'?"),
    ),
    behaviour(
        "OVERWRITE",
        "INSERT OVERWRITE lines VALUES (1, 'z', 1)",
        refused(OPERATION, "INSERT OVERWRITE", "{n}.lines", "Use INSERT INTO"),
    ),
    behaviour(
        "REPLACE WHERE",
        "INSERT INTO lines REPLACE WHERE id = 1 VALUES (1, 'z', 1)",
        refused(OPERATION, "{n}.lines", "Use INSERT INTO"),
    ),
    behaviour(
        "DELETE with a condition",
        "DELETE FROM lines WHERE id = 1",
        refused(OPERATION, "DELETE", "{n}.lines", "Filter when reading", "TRUNCATE TABLE"),
    ),
    behaviour(
        "UPDATE",
        "UPDATE lines SET name = 'z'",
        refused(OPERATION, "UPDATE", "{n}.lines", "Append the new state", "'format'='kvtable'"),
    ),
    behaviour(
        "MERGE of rows that are there",
        "MERGE INTO lines USING (SELECT 1 AS k) s ON lines.id = s.k WHEN MATCHED THEN DELETE",
        refused(OPERATION, "MERGE", "{n}.lines", "Append the new state", "'format'='kvtable'"),
    ),
    behaviour(
        "a stream",
        "INSERT INTO lines SELECT * FROM STREAM lines",
        refused(OPERATION, "INSERT ... FROM STREAM", "{n}.lines", "`pyspark-pravega run job.sql`", "writeStream"),
    ),
    behaviour("what there is not", "INSERT INTO missing VALUES (1)", refused("TABLE_OR_VIEW_NOT_FOUND", "`missing`")),
)

# To Spark some of these are syntax errors, and others mean something else.
OF_OTHERS = (
    behaviour(
        "a mistyped table",
        "SELECT * FROM lnies",
        refused("TABLE_OR_VIEW_NOT_FOUND", "`lnies`", "Did you mean {n}.lines?"),
        "WITH lnies AS (SELECT 1) SELECT count(*) FROM (SELECT * FROM lnies) JOIN lines ON true",
        rows("3"),
        "INSERT INTO {n}.lins VALUES (1)",
        refused("TABLE_OR_VIEW_NOT_FOUND", "`lins`", "Did you mean {n}.lines?"),
        "SELECT * FROM lnies VERSION AS OF 1",
        refused("TABLE_OR_VIEW_NOT_FOUND", "`lnies`", "Did you mean {n}.lines?"),
        "DESCRIBE TABLE lnies",
        refused("TABLE_OR_VIEW_NOT_FOUND", "`lnies`", "Did you mean {n}.lines?"),
        "UNCACHE TABLE IF EXISTS lnies",
        "DROP TABLE IF EXISTS lnies",
    ),
    behaviour(
        "CHANGES of all time",
        "SELECT * FROM lines CHANGES",
        refused(OPERATION, "CHANGES without FROM", "{n}.lines", "CHANGES FROM VERSION 1", "AS changes"),
        "SELECT count(*) FROM lines changes WHERE changes.id = 1",
        rows("1"),
    ),
    behaviour(
        "Delta's DESCRIBE HISTORY",
        "DESCRIBE HISTORY {n}.lines",
        refused(OPERATION, "DESCRIBE HISTORY", "{n}.lines", "<table>.history"),
    ),
    behaviour("Delta's OPTIMIZE", "OPTIMIZE lines", refused(OPERATION, "OPTIMIZE", "{n}.lines", "compact_history")),
    behaviour(
        "Delta's VACUUM",
        "VACUUM {n}.lines RETAIN 168 HOURS",
        refused(OPERATION, "VACUUM", "{n}.lines", "truncate_stream"),
    ),
    behaviour(
        "Trino's EXECUTE",
        "ALTER TABLE lines EXECUTE expire_snapshots(retention_threshold => '7d')",
        refused(OPERATION, "EXECUTE", "{n}.lines", "truncate_stream", "'retention.type'"),
    ),
    behaviour(
        "Iceberg's procedures",
        "CALL {c}.system.expire_snapshots('lines')",
        refused(NAME, "{c}.system.expire_snapshots", "truncate_stream", "'retention.type'"),
    ),
    behaviour(
        "Iceberg's metadata tables",
        "SELECT * FROM {n}.lines.snapshots",
        refused(NAME, "no table snapshots", "Did you mean {n}.lines.history?"),
    ),
    behaviour(
        "a table in Spark's own catalog",
        "CREATE TABLE spark_catalog.default.plain (id INT) USING pravega",
        refused(OPERATION, "CREATE TABLE plain USING pravega", ".<namespace>.plain"),
        "SHOW TABLES IN spark_catalog.default LIKE 'plain'",
        names(),
    ),
)

ALL = {
    "not created": all_with(NOT_CREATED, "SHOW TABLES LIKE 'new'", names()),
    "not altered": all_with(
        NOT_ALTERED, "SHOW COLUMNS IN readings", rows("id", "sensor", "temp", "at", "tags", "place")
    ),
    "of others": all_with(OF_OTHERS, "SELECT count(*) FROM lines", rows("3")),
    "not inserted": all_with(NOT_INSERTED, "SELECT count(*) FROM lines", rows("3")),
}
