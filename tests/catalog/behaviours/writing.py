"""What INSERT does, and how a table was."""

from __future__ import annotations

from tests.catalog.behaviours.model import behaviour, refused, rows, text

OPTION, OPERATION, NAME = ("PRAVEGA_INVALID_OPTION", "PRAVEGA_UNSUPPORTED_OPERATION", "PRAVEGA_INVALID_NAME")

INSERTED = (
    behaviour(
        "values, by position and by name",
        "CREATE TABLE placed (id INT, a STRING, b DOUBLE) USING pravega",
        "INSERT INTO placed VALUES (1, 'x', 0.5)",
        "INSERT INTO placed (b, id) VALUES (1.5, 2)",
        "INSERT INTO placed BY NAME SELECT 'z' AS a, 3 AS id",
        "INSERT INTO TABLE placed SELECT 4, NULL, 4",
        "SELECT * FROM placed ORDER BY id",
        rows("1 | x | 0.5", "2 | NULL | 1.5", "3 | z | NULL", "4 | NULL | 4.0"),
        "SELECT count(*) FROM {n}.placed.history",
        rows("4"),
    ),
    behaviour(
        "values of a narrower type",
        "CREATE TABLE wide (id BIGINT, d DECIMAL(10,3)) USING pravega",
        "INSERT INTO wide VALUES (1Y, 2.5BD)",
        "SELECT * FROM wide",
        rows("1 | 2.500"),
    ),
    behaviour(
        "what a query finds in the same table",
        "CREATE TABLE doubled (id INT) USING pravega",
        "INSERT INTO doubled VALUES (1), (2)",
        "INSERT INTO doubled SELECT id + 10 FROM doubled",
        "SELECT count(*), sum(id) FROM doubled",
        rows("4 | 26"),
    ),
    behaviour(
        "no rows are no version",
        "CREATE TABLE nothing_in_it (id INT) USING pravega",
        "INSERT INTO nothing_in_it SELECT 1 WHERE 1 = 2",
        "SELECT count(*) FROM nothing_in_it",
        rows("0"),
    ),
    behaviour(
        "many rows in many segments",
        "CREATE TABLE many (id BIGINT, t STRING) USING pravega TBLPROPERTIES ('routing-key'='id', "
        "'scaling.min-segments'='4')",
        "INSERT INTO many SELECT id, repeat('x', 100) FROM range(5000)",
        "SELECT count(*), count(DISTINCT id), sum(id), count(DISTINCT _segment) FROM many",
        rows("5000 | 5000 | 12497500 | 4"),
    ),
    behaviour(
        "packed",
        "CREATE TABLE packed (id INT) USING pravega TBLPROPERTIES ('codec'='gzip')",
        "INSERT INTO packed VALUES (1)",
        "INSERT INTO packed WITH ('codec'='snappy') VALUES (2)",
        "SELECT id FROM packed ORDER BY id",
        rows("1", "2"),
    ),
    behaviour(
        "a row of a table of changes",
        "CREATE TABLE accounts (id INT, name STRING) USING pravega TBLPROPERTIES "
        "('format'='debezium-json', 'primary-key'='id')",
        "INSERT INTO accounts VALUES (1, 'ann'), (2, 'bob')",
        "INSERT INTO accounts VALUES (1, 'eve')",
        "SELECT * FROM accounts ORDER BY id",
        rows("1 | eve", "2 | bob"),
    ),
    behaviour(
        "columns that are new",
        "CREATE TABLE evolving (id INT) USING pravega",
        "INSERT INTO evolving VALUES (1)",
        "INSERT WITH SCHEMA EVOLUTION INTO evolving BY NAME SELECT 2 AS id, 'bolt' AS kind",
        "SELECT * FROM evolving ORDER BY id",
        rows("1 | NULL", "2 | bolt"),
    ),
    behaviour(
        "a MERGE that only inserts",
        "CREATE TABLE merged (id INT, b STRING) USING pravega",
        "INSERT INTO merged VALUES (1, 'x')",
        "MERGE INTO merged USING (SELECT 1 AS id, 'no' AS b UNION ALL SELECT 3, 'new') s ON merged.id = "
        "s.id WHEN NOT MATCHED THEN INSERT *",
        "SELECT * FROM merged ORDER BY id",
        rows("1 | x", "3 | new"),
    ),
    behaviour(
        "several with one statement",
        "CREATE TABLE fan_a (id BIGINT) USING pravega",
        "CREATE TABLE fan_b (id BIGINT) USING pravega",
        "FROM range(4) INSERT INTO fan_a SELECT id WHERE id < 3 INSERT INTO fan_b SELECT id WHERE id > 0",
        "SELECT (SELECT sum(id) FROM fan_a), (SELECT sum(id) FROM fan_b)",
        rows("3 | 6"),
    ),
)

CHANGED = (
    behaviour(
        "rows of a table of changes",
        "CREATE TABLE stock (id INT, name STRING, n INT) USING pravega "
        "TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id')",
        "INSERT INTO stock VALUES (1, 'bolt', 5), (2, 'nut', 7), (3, 'pin', 0)",
        "UPDATE stock SET n = n + 1 WHERE name = 'bolt'",
        "DELETE FROM stock WHERE n = 0",
        "MERGE INTO stock t USING (SELECT * FROM VALUES (1, 6), (2, 3), (9, -1) AS s(id, sold)) s ON t.id = s.id "
        "WHEN MATCHED AND t.n = s.sold THEN DELETE WHEN MATCHED THEN UPDATE SET n = t.n - s.sold "
        "WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, -s.sold)",
        "SELECT * FROM stock ORDER BY id",
        rows("2 | nut | 4", "9 | NULL | 1"),
        "SELECT id, n FROM stock VERSION AS OF 2 ORDER BY id",
        rows("1 | 6", "2 | 7", "3 | 0"),
        "SELECT _change_type, n FROM stock CHANGES FROM VERSION 0 WHERE id = 1 ORDER BY _commit_version, n",
        rows("insert | 5", "update_preimage | 5", "update_postimage | 6", "delete | 6"),
        "SELECT version, operation, rows FROM {n}.stock.history ORDER BY version",
        rows("1 | INSERT | 3", "2 | UPDATE | 1", "3 | DELETE | 1", "4 | MERGE | 3"),
        "UPDATE stock SET id = 7",
        refused("PRAVEGA_INVALID_ROW", "each key may be changed once"),
        "DELETE FROM orders WHERE id = 10",
        refused(OPERATION, "{n}.orders"),
        "SELECT count(*), (SELECT count(*) FROM {n}.stock.history) FROM stock",
        rows("2 | 4"),
    ),
)

HISTORY = (
    behaviour(
        "versions",
        "SELECT version, operation, rows FROM {n}.readings.history ORDER BY version",
        rows("1 | INSERT | 2", "2 | INSERT | 2", "3 | INSERT | 2"),
    ),
    behaviour(
        "as it was at a version",
        "SELECT count(*), sum(id) FROM readings VERSION AS OF 2",
        rows("4 | 10"),
        "SELECT count(*) FROM readings FOR SYSTEM_VERSION AS OF 1 WHERE sensor = 'a'",
        rows("1"),
    ),
    behaviour("as it was at a time", "SELECT count(*) FROM readings TIMESTAMP AS OF current_timestamp()", rows("6")),
    behaviour(
        "two versions in one query",
        "SELECT a.n, b.n FROM (SELECT count(*) AS n FROM readings VERSION AS OF 1) a, (SELECT count(*) "
        "AS n FROM readings) b",
        rows("2 | 6"),
    ),
    behaviour("a start, too", "SELECT sum(id) FROM readings VERSION AS OF 3 WITH ('start-version'='2')", rows("18")),
    behaviour(
        "a version that there is not",
        "SELECT * FROM readings VERSION AS OF 4",
        refused(OPTION, "{n}.readings", "VERSION AS OF 4", "the newest one is 3, published at 20"),
    ),
    behaviour(
        "a time before all",
        "SELECT * FROM readings TIMESTAMP AS OF '2020-01-01'",
        refused(OPTION, "{n}.readings", "lies before 1, published"),
    ),
    behaviour(
        "a time to come", "SELECT * FROM readings TIMESTAMP AS OF '2199-01-01'", refused(OPTION, "2199-01-01", "future")
    ),
    behaviour(
        "a tag that there is not",
        "SELECT * FROM readings VERSION AS OF 'release'",
        refused(OPTION, "{n}.readings", "'release'", "has no tags"),
    ),
    behaviour(
        "changes",
        "SELECT id, _change_type, _commit_version FROM readings CHANGES FROM VERSION 2 ORDER BY id",
        rows("3 | insert | 2", "4 | insert | 2", "5 | insert | 3", "6 | insert | 3"),
    ),
    behaviour(
        "changes up to a version",
        "SELECT id FROM readings CHANGES FROM VERSION 1 EXCLUSIVE TO VERSION 2 ORDER BY id",
        rows("3", "4"),
    ),
    behaviour(
        "changes by a condition on versions",
        "SELECT count(*) FROM readings CHANGES FROM VERSION 1 WHERE _commit_version = 3",
        rows("2"),
    ),
    behaviour(
        "when changes were made",
        "SELECT count(DISTINCT _commit_timestamp) > 0, max(_commit_timestamp) <= current_timestamp() "
        "FROM readings CHANGES FROM VERSION 1",
        rows("true | true"),
    ),
    behaviour(
        "changes of a database's rows",
        "SELECT _change_type, id, name FROM customers CHANGES FROM VERSION 0 ORDER BY id",
        rows("insert | 1 | ann", "insert | 2 | bob"),
    ),
    behaviour(
        "segments",
        "SELECT number, epoch, key_range_start, key_range_end, sealed FROM {n}.readings.segments ORDER BY number",
        rows("0 | 0 | 0.0 | 0.5 | false", "1 | 0 | 0.5 | 1.0 | false"),
    ),
    behaviour(
        "schemas",
        "SELECT version, format, compatibility, schema LIKE '%its number%' FROM {n}.readings.schemas",
        rows("0 | Avro | backward | true"),
    ),
    behaviour("encodings", "SELECT encoding_id, version, codec FROM {n}.readings.encodings", rows("0 | 0 | none")),
    behaviour("properties", "SELECT value FROM {n}.readings.properties WHERE key = 'routing-key'", rows("sensor")),
    behaviour(
        "what is empty",
        "SELECT (SELECT count(*) FROM {n}.readings.tags), (SELECT count(*) FROM {n}.readings.consumers), (SELECT "
        "count(*) FROM {n}.readings.transactions)",
        rows("0 | 0 | 0"),
    ),
    behaviour("positions", "SELECT kind FROM {n}.readings.stream_cuts ORDER BY kind", rows("head", "tail")),
    behaviour("epochs", "SELECT epoch, segments, splits, merges FROM {n}.readings.scale_events", rows("0 | 2 | 0 | 0")),
    behaviour(
        "their columns", "DESCRIBE {n}.readings.history", text("version", "committed_at", "timestamp", "stream_cut")
    ),
    behaviour(
        "one that there is not",
        "SELECT * FROM {n}.readings.histroy",
        refused(NAME, "{n}.readings", "no table histroy", "history, segments, schemas"),
    ),
    behaviour(
        "they are only read",
        "INSERT INTO {n}.readings.tags VALUES ('x')",
        refused(OPERATION, "{n}.readings.tags", "can only be read"),
        "DROP TABLE {n}.readings.history",
        refused(OPERATION, "{n}.readings.history", "can only be read"),
    ),
)

ALL = {"inserted": INSERTED, "changed": CHANGED, "history": HISTORY}
