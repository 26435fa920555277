"""What queries answer."""

from __future__ import annotations

from tests.catalog.behaviours.model import behaviour, names, refused, rows, text

READING = (
    behaviour(
        "all columns of all rows, in the order of the table's columns",
        "SELECT id, sensor, temp, CAST(at AS STRING), array_join(tags, '+'), place.hall FROM readings ORDER BY id",
        rows(
            "1 | a | 20.5 | 2026-01-01 10:00:00 | x+y | 1",
            "2 | b | 21.5 | 2026-01-01 11:00:00 |  | 1",
            "3 | a | 19.0 | 2026-01-02 10:00:00 | NULL | NULL",
            "4 | c | NULL | 2026-01-02 12:30:00 | z | 2",
            "5 | b | -3.25 | NULL | x | 2",
            '6 | größe "q" | 0.0 | 2026-01-03 00:00:00.123456 | y+x | NULL',
        ),
    ),
    behaviour(
        "an asterisk has no hidden columns",
        "SELECT * FROM words WHERE value = 'one'",
        rows("one"),
        "SELECT *, _offset >= 0 FROM words WHERE value = 'one'",
        rows("one | true"),
    ),
    behaviour("a table without rows", "SELECT count(*), max(id), min(name) FROM empty", rows("0 | NULL | NULL")),
    behaviour(
        "JSON",
        "SELECT id, total, CAST(day AS STRING), who, paid FROM orders ORDER BY id",
        rows(
            "10 | 5.50 | 2026-01-01 | ann | true",
            "11 | 0.05 | 2026-01-02 | bob | false",
            "12 | NULL | NULL | NULL | NULL",
            "13 | 99999999.99 | 2026-01-02 | ann | true",
        ),
    ),
    behaviour(
        "CSV with a delimiter of one's own and quotes in cells",
        "SELECT * FROM lines ORDER BY id",
        rows("1 | a;b | 1.50", '2 | say "hi" | NULL', "3 | NULL | -0.01"),
    ),
    behaviour(
        "text, even the empty one",
        "SELECT value, length(value) FROM words ORDER BY 2",
        rows(" | 0", "one | 3", "zwölf | 5"),
    ),
    behaviour("bytes, even none", "SELECT hex(event), length(event) FROM bytes ORDER BY 2", rows(" | 0", "00FF | 2")),
    behaviour("current rows of a table of changes", "SELECT * FROM customers ORDER BY id", rows("1 | ann", "2 | bob")),
    behaviour(
        "events of a table of changes",
        "SELECT op, after.name FROM {n}.customers.changelog ORDER BY 2",
        rows("c | ann", "c | bob"),
    ),
    behaviour("the other name of these", "SELECT count(*) FROM `customers$changelog`", rows("2")),
    behaviour(
        "names in full",
        "SELECT count(*) FROM {n}.readings",
        rows("6"),
        "SELECT {n}.words.value FROM {n}.words WHERE value = 'one'",
        rows("one"),
    ),
    behaviour(
        "a table in backticks and in other case of its columns",
        "SELECT `ID`, SENSOR FROM `readings` WHERE Id = 1",
        rows("1 | a"),
    ),
    behaviour("TABLE", "SELECT * FROM (TABLE lines) WHERE id = 1", rows("1 | a;b | 1.50")),
    behaviour("an alias", "SELECT r.id FROM readings AS r WHERE r.temp < 0", rows("5")),
    behaviour("a constant for each row", "SELECT 1 FROM words", rows("1", "1", "1")),
    behaviour(
        "LIMIT",
        "SELECT count(*) FROM (SELECT id FROM readings LIMIT 4)",
        rows("4"),
        "SELECT id FROM readings LIMIT 0",
        rows(),
    ),
    behaviour("LIMIT and OFFSET in order", "SELECT id FROM readings ORDER BY id DESC LIMIT 2 OFFSET 1", rows("5", "4")),
    behaviour("a sample of everything", "SELECT count(*) FROM readings TABLESAMPLE (100 PERCENT)", rows("6")),
    behaviour("EXPLAIN names the table and its format", "EXPLAIN SELECT id FROM readings", text("readings (avro)")),
    behaviour(
        "EXPLAIN shows what a condition on the routing key saves",
        "EXPLAIN SELECT id FROM readings WHERE sensor = 'a'",
        text("routing key: 1 of 2 segments"),
    ),
)

CONDITIONS = (
    behaviour("equal", "SELECT id FROM readings WHERE sensor = 'a' ORDER BY id", rows("1", "3")),
    behaviour(
        "equal to a text with quotes and umlauts", "SELECT id FROM readings WHERE sensor = 'größe \"q\"'", rows("6")
    ),
    behaviour(
        "not equal leaves NULL out", "SELECT id FROM readings WHERE temp <> 0 ORDER BY id", rows("1", "2", "3", "5")
    ),
    behaviour(
        "NULL-safe equal",
        "SELECT id FROM readings WHERE temp <=> NULL",
        rows("4"),
        "SELECT id FROM readings WHERE sensor <=> 'c'",
        rows("4"),
    ),
    behaviour(
        "IS NULL and IS NOT NULL",
        "SELECT id FROM readings WHERE at IS NULL OR place IS NULL ORDER BY id",
        rows("3", "5", "6"),
        "SELECT count(*) FROM readings WHERE tags IS NOT NULL",
        rows("5"),
    ),
    behaviour(
        "IN, even with NULL in it",
        "SELECT id FROM readings WHERE sensor IN ('a', 'c', 'nobody') ORDER BY id",
        rows("1", "3", "4"),
        "SELECT count(*) FROM readings WHERE id NOT IN (1, NULL)",
        rows("0"),
    ),
    behaviour("BETWEEN", "SELECT id FROM readings WHERE temp BETWEEN 0 AND 20.5 ORDER BY id", rows("1", "3", "6")),
    behaviour(
        "LIKE and its escapes",
        "SELECT id FROM readings WHERE sensor LIKE 'gr_ße%'",
        rows("6"),
        "SELECT count(*) FROM words WHERE value LIKE '%'",
        rows("3"),
    ),
    behaviour("RLIKE", "SELECT value FROM words WHERE value RLIKE '^[a-z]+$'", rows("one")),
    behaviour(
        "AND, OR and NOT of what may be NULL",
        "SELECT id FROM readings WHERE NOT (temp > 0 AND sensor = 'a') OR id = 3 ORDER BY id",
        rows("2", "3", "4", "5", "6"),
    ),
    behaviour(
        "times",
        "SELECT id FROM readings WHERE at >= TIMESTAMP'2026-01-02 12:30:00' ORDER BY id",
        rows("4", "6"),
        "SELECT id FROM readings WHERE CAST(at AS DATE) = DATE'2026-01-01' ORDER BY id",
        rows("1", "2"),
    ),
    behaviour(
        "microseconds count",
        "SELECT count(*) FROM readings WHERE at > TIMESTAMP'2026-01-03 00:00:00.123455'",
        rows("1"),
        "SELECT count(*) FROM readings WHERE at > TIMESTAMP'2026-01-03 00:00:00.123456'",
        rows("0"),
    ),
    behaviour(
        "decimals are exact",
        "SELECT id FROM orders WHERE total = 0.05",
        rows("11"),
        "SELECT id FROM orders WHERE total > 99999999.98",
        rows("13"),
    ),
    behaviour("dates", "SELECT id FROM orders WHERE day > DATE'2026-01-01' ORDER BY id", rows("11", "13")),
    behaviour(
        "booleans",
        "SELECT id FROM orders WHERE paid ORDER BY id",
        rows("10", "13"),
        "SELECT id FROM orders WHERE NOT paid",
        rows("11"),
    ),
    behaviour(
        "fields of structs",
        "SELECT id FROM readings WHERE place.hall = 2 ORDER BY id",
        rows("4", "5"),
        "SELECT id FROM readings WHERE place.row IS NULL ORDER BY id",
        rows("3", "4", "6"),
    ),
    behaviour(
        "elements of arrays",
        "SELECT id FROM readings WHERE array_contains(tags, 'x') ORDER BY id",
        rows("1", "5", "6"),
        "SELECT id FROM readings WHERE get(tags, 0) = 'y'",
        rows("6"),
    ),
    behaviour("a function of a column", "SELECT id FROM readings WHERE upper(sensor) = 'C'", rows("4")),
    behaviour(
        "another type than the column's",
        "SELECT id FROM readings WHERE id = '2'",
        rows("2"),
        "SELECT count(*) FROM readings WHERE id < 2.5",
        rows("2"),
    ),
    behaviour("a number too large for the column", "SELECT count(*) FROM readings WHERE id < 3000000000", rows("6")),
    behaviour("never true", "SELECT id FROM readings WHERE 1 = 2", rows()),
    behaviour(
        "a subquery",
        "SELECT id FROM readings WHERE temp = (SELECT max(temp) FROM readings)",
        rows("2"),
        "SELECT id FROM readings r WHERE EXISTS (SELECT 1 FROM orders o WHERE o.id = r.id + 9) ORDER BY id",
        rows("1", "2", "3", "4"),
    ),
    behaviour("bytes", "SELECT count(*) FROM bytes WHERE event = X'00FF'", rows("1")),
)

AGGREGATES = (
    behaviour(
        "rows and values", "SELECT count(*), count(temp), count(DISTINCT sensor) FROM readings", rows("6 | 5 | 4")
    ),
    behaviour(
        "the smallest and the largest",
        "SELECT min(id), max(id), min(temp), max(sensor), CAST(max(at) AS STRING) FROM readings",
        rows('1 | 6 | -3.25 | größe "q" | 2026-01-03 00:00:00.123456'),
    ),
    behaviour(
        "sums and means",
        "SELECT sum(id), avg(temp), sum(total) FROM readings, (SELECT sum(total) AS total FROM orders "
        "WHERE id < 12) WHERE id < 4",
        rows("6 | 20.333333333333332 | 16.65"),
    ),
    behaviour(
        "decimals", "SELECT sum(total), min(total), max(total) FROM orders", rows("100000005.54 | 0.05 | 99999999.99")
    ),
    behaviour("with a condition", "SELECT count(*), sum(temp) FROM readings WHERE sensor = 'b'", rows("2 | 18.25")),
    behaviour(
        "with a filter of their own", "SELECT count(*) FILTER (WHERE temp > 0), count(*) FROM readings", rows("3 | 6")
    ),
    behaviour(
        "by groups",
        "SELECT sensor, count(*), max(temp) FROM readings GROUP BY sensor ORDER BY sensor",
        rows("a | 2 | 20.5", "b | 2 | 21.5", "c | 1 | NULL", 'größe "q" | 1 | 0.0'),
    ),
    behaviour(
        "by groups that may be NULL",
        "SELECT place.hall AS hall, count(*) FROM readings GROUP BY 1 ORDER BY 1",
        rows("NULL | 2", "1 | 2", "2 | 2"),
    ),
    behaviour(
        "HAVING", "SELECT who, sum(total) FROM orders GROUP BY who HAVING count(*) > 1", rows("ann | 100000005.49")
    ),
    behaviour(
        "ROLLUP",
        "SELECT who, count(*) FROM orders WHERE who IS NOT NULL GROUP BY ROLLUP (who) ORDER BY 1",
        rows("NULL | 3", "ann | 2", "bob | 1"),
    ),
    behaviour(
        "DISTINCT",
        "SELECT DISTINCT day FROM orders WHERE day IS NOT NULL ORDER BY day",
        rows("2026-01-01", "2026-01-02"),
    ),
    behaviour(
        "of arrays and structs",
        "SELECT max(size(tags)), max(place.hall), count(place) FROM readings",
        rows("2 | 2 | 4"),
    ),
    behaviour(
        "lists", "SELECT array_join(sort_array(collect_list(sensor)), ',') FROM readings WHERE id < 4", rows("a,a,b")
    ),
    behaviour(
        "of text and bytes",
        "SELECT max(value), sum(length(value)) FROM words",
        rows("zwölf | 8"),
        "SELECT sum(length(event)) FROM bytes",
        rows("2"),
    ),
)

COMPOSED = (
    behaviour(
        "a join",
        "SELECT r.id, o.who FROM readings r JOIN orders o ON o.id = r.id + 9 WHERE o.who IS NOT NULL ORDER BY 1",
        rows("1 | ann", "2 | bob", "4 | ann"),
    ),
    behaviour(
        "an outer join",
        "SELECT o.id, r.id FROM orders o LEFT JOIN readings r ON o.id = r.id + 9 AND r.temp > 20 ORDER BY 1",
        rows("10 | 1", "11 | 2", "12 | NULL", "13 | NULL"),
    ),
    behaviour(
        "a join with itself", "SELECT count(*) FROM readings a JOIN readings b ON a.sensor = b.sensor", rows("10")
    ),
    behaviour(
        "what has no partner",
        "SELECT id FROM readings r LEFT ANTI JOIN orders o ON o.id = r.id + 9 ORDER BY 1",
        rows("5", "6"),
    ),
    behaviour(
        "a join with rows of the session",
        "SELECT r.id, v.word FROM readings r JOIN VALUES ('c', 'cold') AS v(sensor, word) USING (sensor)",
        rows("4 | cold"),
    ),
    behaviour(
        "UNION, INTERSECT and EXCEPT",
        "SELECT sensor FROM readings INTERSECT SELECT 'a'",
        rows("a"),
        "SELECT id FROM readings EXCEPT SELECT id - 9 FROM orders ORDER BY id",
        rows("5", "6"),
        "SELECT count(*) FROM (SELECT id FROM readings UNION ALL SELECT id FROM orders)",
        rows("10"),
    ),
    behaviour(
        "a common table expression",
        "WITH warm AS (SELECT * FROM readings WHERE temp > 19) SELECT count(*), max(id) FROM warm",
        rows("2 | 2"),
    ),
    behaviour(
        "a window",
        "SELECT id, row_number() OVER (PARTITION BY sensor ORDER BY id) FROM readings WHERE sensor < 'c' ORDER BY id",
        rows("1 | 1", "2 | 1", "3 | 2", "5 | 2"),
    ),
    behaviour(
        "what was before",
        "SELECT id, lag(temp) OVER (ORDER BY id) FROM readings WHERE id < 4 ORDER BY id",
        rows("1 | NULL", "2 | 20.5", "3 | 21.5"),
    ),
    behaviour(
        "rows of arrays",
        "SELECT id, tag FROM readings LATERAL VIEW explode(tags) AS tag WHERE id IN (1, 6) ORDER BY id, tag",
        rows("1 | x", "1 | y", "6 | x", "6 | y"),
    ),
    behaviour(
        "CASE",
        "SELECT id, CASE WHEN temp > 20 THEN 'warm' WHEN temp IS NULL THEN 'unknown' ELSE 'cold' END "
        "FROM readings WHERE id > 1 AND id < 5 ORDER BY id",
        rows("2 | warm", "3 | cold", "4 | unknown"),
    ),
    behaviour(
        "PIVOT",
        "SELECT * FROM (SELECT who, paid FROM orders) PIVOT (count(*) FOR paid IN (true AS yes, false AS "
        "no)) WHERE who IS NOT NULL ORDER BY who",
        rows("ann | 2 | NULL", "bob | NULL | 1"),
    ),
    behaviour("the pipe syntax", "FROM readings |> WHERE temp > 19 |> AGGREGATE count(*) AS n |> SELECT n", rows("2")),
    behaviour(
        "a temporary view of a table",
        "CREATE TEMPORARY VIEW warm_ones AS SELECT id FROM readings WHERE temp > 19",
        "SELECT * FROM warm_ones ORDER BY id",
        rows("1", "2"),
        "DROP VIEW warm_ones",
        "SELECT * FROM warm_ones",
        refused("TABLE_OR_VIEW_NOT_FOUND", "`warm_ones`"),
    ),
    behaviour(
        "a temporary view by options",
        "CREATE TEMPORARY VIEW by_options USING pravega OPTIONS ('catalog'='{c}', 'scope'='{s}', 'stream'='orders')",
        "SELECT sum(id) FROM by_options",
        rows("46"),
        "DROP VIEW by_options",
    ),
    behaviour(
        "several streams as one",
        "CREATE TABLE `sensor-a` (id INT) USING pravega TBLPROPERTIES ('format'='json')",
        "INSERT INTO `sensor-a` VALUES (1), (2)",
        "CREATE TABLE `sensor-b` (id INT) USING pravega TBLPROPERTIES ('format'='json')",
        "INSERT INTO `sensor-b` VALUES (3), (4), (5)",
        "CREATE TEMPORARY VIEW several USING pravega OPTIONS ('catalog'='{c}', 'scope'='{s}', 'pattern'='sensor-.*')",
        "SELECT _stream, count(*), sum(id) FROM several GROUP BY _stream ORDER BY _stream",
        rows("sensor-a | 2 | 3", "sensor-b | 3 | 12"),
        "DROP VIEW several",
    ),
    behaviour(
        "variables of the session",
        "DECLARE OR REPLACE VARIABLE least DOUBLE DEFAULT 20",
        "SELECT count(*) FROM readings WHERE temp > least",
        rows("2"),
        "DROP TEMPORARY VARIABLE least",
    ),
    behaviour(
        "a text that is put together is a name",
        "SELECT count(*) FROM IDENTIFIER('read' || 'ings')",
        rows("6"),
        "CREATE TEMPORARY VIEW reading AS SELECT 7 AS x",
        "SELECT x FROM IDENTIFIER('read' || 'ing')",
        rows("7"),
        "DROP VIEW reading",
    ),
    behaviour(
        "a table in memory",
        "CACHE TABLE orders",
        "SELECT count(*) FROM orders",
        rows("4"),
        "UNCACHE TABLE orders",
        "SELECT count(*) FROM orders",
        rows("4"),
    ),
)

HIDDEN = (
    behaviour(
        "the place of an event",
        "SELECT count(DISTINCT _event_pointer), count(DISTINCT _segment), min(_offset) FROM readings",
        rows("6 | 2 | 0"),
    ),
    behaviour(
        "the bytes of an event",
        "SELECT CAST(_raw AS STRING) FROM words WHERE value = 'one'",
        rows("one"),
        "SELECT count(*) FROM readings WHERE hex(_raw) LIKE '01%'",
        rows("6"),
    ),
    behaviour(
        "the version of its schema", "SELECT DISTINCT _encoding_id, _schema_version FROM readings", rows("0 | 0")
    ),
    behaviour("no error of good events", "SELECT count(_error) FROM readings WITH ('mode'='permissive')", rows("0")),
    behaviour(
        "a condition on the segment",
        "SELECT count(*) FROM readings WHERE _segment LIKE '%/0.#epoch.0' AND sensor = 'nobody'",
        rows("0"),
        "SELECT count(*) FROM bytes WHERE _segment = '{s}/bytes/0.#epoch.0'",
        rows("2"),
    ),
    behaviour("a condition on the offset", "SELECT count(*) FROM words WHERE _offset = 0", rows("1")),
    behaviour(
        "the event of a pointer",
        "SELECT count(*) FROM readings WHERE _event_pointer IN (SELECT _event_pointer FROM readings "
        "WHERE id = 3) AND id = 3",
        rows("1"),
    ),
    behaviour(
        "the table's segments",
        "SELECT count(*) FROM readings r JOIN {n}.readings.segments s ON r._segment = s.segment",
        rows("6"),
    ),
)

OPTIONS = (
    behaviour(
        "options in the statement",
        "SELECT count(id) FROM readings WITH ('read-window'='64k', 'push-down-routing-key'='false') WHERE sensor = 'a'",
        rows("2"),
    ),
    behaviour("a version of the schema", "SELECT count(*) FROM readings WITH ('schema-version'='0')", rows("6")),
    behaviour(
        "an option that there is not",
        "SELECT * FROM readings WITH ('readwindw'='8m')",
        refused("PRAVEGA_INVALID_OPTION", "{n}.readings", "'8m'", "Did you mean 'readWindow'?"),
    ),
    behaviour(
        "a value that cannot be",
        "SELECT * FROM readings WITH ('read-window'='1x')",
        refused("PRAVEGA_INVALID_OPTION", "{n}.readings", "'1x'", "64k"),
    ),
    behaviour(
        "an option of writing",
        "SELECT * FROM readings WITH ('transaction.lease'='20s')",
        refused("PRAVEGA_INVALID_OPTION", "cannot be a read option"),
    ),
    behaviour(
        "a secret in the wrong place",
        "SELECT * FROM readings WITH ('pasword'='hunter2-swordfish')",
        refused("PRAVEGA_INVALID_OPTION", "Did you mean 'security.password'?"),
    ),
    behaviour(
        "a stream cut that is none",
        "SELECT * FROM readings WITH ('start-stream-cut'='garbage')",
        refused("PRAVEGA_INVALID_OPTION", "'garbage'", "not base64"),
    ),
)

FUNCTIONS = (
    behaviour(
        "where a routing key lies",
        "SELECT round({c}.system.routing_hash('a'), 4), {c}.system.routing_hash(NULL)",
        rows("0.9434 | NULL"),
    ),
    behaviour(
        "the segment of a routing key",
        "SELECT count(*) FROM readings WHERE _segment = {n}.readings.segment_of(sensor)",
        rows("6"),
    ),
    behaviour(
        "the pointer of an event",
        "SELECT count(*) FROM words WHERE _event_pointer = {c}.system.event_pointer(_segment, _offset, length(_raw))",
        rows("3"),
    ),
    behaviour(
        "their list", "SHOW USER FUNCTIONS IN {c}.system", rows("{c}.system.event_pointer", "{c}.system.routing_hash")
    ),
    behaviour(
        "a function that there is not",
        "SELECT nothing(1)",
        refused("UNRESOLVED_ROUTINE", "`nothing`"),
        "SELECT {c}.system.nothing(1)",
        refused("UNRESOLVED_ROUTINE", "`nothing`"),
    ),
    behaviour("functions of Spark in the current catalog", "SELECT upper('a'), abs(-1)", rows("A | 1")),
    behaviour("a table of bare numbers", "SELECT sum(id) FROM range(4)", rows("6")),
)

ERRORS = (
    behaviour("a table that there is not", "SELECT * FROM missing", refused("TABLE_OR_VIEW_NOT_FOUND", "`missing`")),
    behaviour(
        "a namespace that there is not", "SELECT * FROM {c}.missing.t", refused("TABLE_OR_VIEW_NOT_FOUND", "`missing`")
    ),
    behaviour(
        "a catalog that there is not",
        "SELECT * FROM nowhere.missing.t",
        refused("TABLE_OR_VIEW_NOT_FOUND", "`nowhere`"),
    ),
    behaviour("a table without a namespace", "SELECT * FROM {c}.t", refused("PRAVEGA_INVALID_NAME", "{c}.<namespace>")),
    behaviour(
        "a column that there is not", "SELECT nothing FROM readings", refused("UNRESOLVED_COLUMN", "`nothing`", "`id`")
    ),
    behaviour("an expression that fails on a row", "SELECT 1 / (id - 5) FROM readings", refused("DIVIDE_BY_ZERO")),
    behaviour(
        "a cast that fails on a row", "SELECT CAST(sensor AS INT) FROM readings", refused("CAST_INVALID_INPUT", "'")
    ),
    behaviour(
        "an error of one's own",
        "SELECT raise_error('my own words') FROM words",
        refused("USER_RAISED_EXCEPTION", "my own words"),
    ),
    behaviour("a statement that is none", "SELEC 1", refused("PARSE_SYNTAX_ERROR", "SELEC")),
    behaviour(
        "a session that goes on",
        "SELECT count(*) FROM readings",
        rows("6"),
        "SHOW TABLES LIKE 'read*'",
        names("readings"),
    ),
)

ALL = {
    "reading": READING,
    "conditions": CONDITIONS,
    "aggregates": AGGREGATES,
    "composed": COMPOSED,
    "hidden columns": HIDDEN,
    "read options": OPTIONS,
    "functions": FUNCTIONS,
    "errors of queries": ERRORS,
}
