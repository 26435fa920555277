"""What users get wrong in SQL: each is refused by a message that names what is wrong and says what to do.

After them the namespace is exactly as before: no stream, no schema group, no version, no byte more.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pyspark_pravega.client import connect
from pyspark_pravega.client.config import ClientConfig
from tests.bad_input import SECRET, Refusal, Watched, at_length, check_message, refusal
from tests.sql_clients import PySparkClient, SqlError

OPTION = "PRAVEGA_INVALID_OPTION"
NAME = "PRAVEGA_INVALID_NAME"
TYPE = "PRAVEGA_UNSUPPORTED_TYPE"
OPERATION = "PRAVEGA_UNSUPPORTED_OPERATION"
ROW = "PRAVEGA_INVALID_ROW"
MEMBER = "PRAVEGA_MEMBER_NOT_FOUND"
NEW = "pravega.{s}.new"


@pytest.fixture(scope="module")
def watched(spark: SparkSession, client_config: ClientConfig) -> Iterator[Watched]:
    """A namespace for all statements of this module, none of which may change it."""
    with connect(client_config) as pravega:
        made = Watched(PySparkClient(spark), pravega, "badinput")
        made.settle()
        yield made
        made.close()


def properties(text: str, *words: str, condition: str = OPTION) -> object:
    """A CREATE TABLE with wrong properties."""
    statement = f"CREATE TABLE {{n}}.new (id INT, b STRING) USING pravega TBLPROPERTIES ({text})"
    return refusal(statement, condition, NEW, *words)


PROPERTIES = [
    properties("'fromat'='avro'", "'fromat'", "'avro'", "Did you mean 'format'?"),
    properties("'min-segments'='4'", "'min-segments'", "'4'", "Did you mean 'scaling.min-segments'?"),
    properties("'foo'='bar'", "'foo'", "'bar'", "Valid keys: format, framing"),
    properties("'format'='parquet'", "'parquet'", "'format'", "avro, csv, debezium-avro, debezium-json, json"),
    properties("'codec'='zstd'", "'zstd'", "'codec'", "none, gzip, snappy"),
    properties("'compatibility'='sometimes'", "'sometimes'", "'compatibility'", "backward, backward-transitive"),
    properties("'scaling.min-segments'='many'", "'many'", "'scaling.min-segments'", "expected a whole number"),
    properties("'scaling.min-segments'='0'", "'0'", "'scaling.min-segments'", "1 to 10000"),
    at_length(properties("'scaling.min-segments'='1000000'", "'1000000'", "'scaling.min-segments'", "1 to 10000")),
    at_length(properties("'scaling.min-segments'='1.5'", "'1.5'", "expected a whole number")),
    properties("'rollover-size'='-5'", "'-5'", "'rollover-size'", "for example 64k"),
    properties("'routing-key'=''", "'routing-key'", "it is empty"),
    at_length(properties("'streams'=''", "'streams'", "it is empty")),
    properties("'pipelines.autocdc.keyColumnNames'='id'", "'id'", "'pipelines.autocdc.keyColumnNames'"),
    properties(
        """'pipelines.autocdc.keyColumnNames'='["id"]', 'pipelines.autocdc.scdType'='SCD2'""",
        "STORED AS SCD2 is not possible",
        "SCD TYPE 1",
        condition="PRAVEGA_UNSUPPORTED_OPERATION",
    ),
    properties("'streams'='t,t'", "'t,t'", "'streams'", "different names"),
    properties("'streams'='t,a/b/t'", "is not a stream", "scope/stream"),
    properties("'streams'='t,missing'", "'missing'", "Create it, or leave it out", condition=MEMBER),
    properties("'pattern'='none-.*'", "'none-.*'", "whole names", condition=MEMBER),
    properties("'pattern'='t('", "'t('", "'pattern'", "regular expression"),
    properties("'pattern'='t', 'streams'='t'", "'streams' and 'pattern'", "Set one of them"),
    properties("'streams'='t', 'codec'='gzip'", "'codec' does not apply", "Leave it out"),
    properties("'retention.minimum'='7d'", "'retention.minimum' needs 'retention.type'", "'time' or 'size'"),
    properties("'retention.type'='time'", "needs 'retention.minimum'", "'7d'"),
    at_length(properties("'retention.type'='age'", "'age'", "time, size")),
    properties(
        "'retention.type'='time', 'retention.minimum'='7 parsecs'", "'7 parsecs'", "'retention.minimum'", "7 parsecs"
    ),
    properties("'retention.type'='size', 'retention.minimum'='7d'", "'7d'", "'retention.type'='size'", "bytes"),
    properties(
        "'retention.type'='time', 'retention.minimum'='7d', 'retention.maximum'='1d'",
        "'retention.maximum'='1d' must be more than 'retention.minimum'='7d'",
    ),
    properties("'scaling.target-rate'='100'", "'scaling.target-rate'", "'scaling.type'='fixed'", "Leave it out"),
    properties("'scaling.type'='by-rate-kb'", "'scaling.type'='by-rate-kb' needs 'scaling.target-rate'"),
    properties("'framing'='none', 'codec'='gzip'", "'codec'='gzip' needs 'framing'='registry'"),
    properties("'FORMAT'='avro', 'format'='json'", "'format' is given twice"),
    properties("'controller-uri'='tcp://elsewhere:1'", "'controller-uri' cannot be a table property", "catalog conf"),
    properties("'read-window'='8m'", "'read-window' cannot be a table property", "read option"),
    at_length(properties("'start-stream-cut'='earliest'", "'start-stream-cut'", "read option")),
    properties("'current-rows.remembered-in'='/rows'", "'current-rows.remembered-in' cannot be a table property"),
    properties(f"'security.password'='{SECRET}'", "'security.password' cannot be a table property"),
    at_length(properties(f"'security.auth-token'='{SECRET}'", "'security.auth-token' cannot be a table property")),
    properties(f"'pasword'='{SECRET}'", "'pasword'", "Valid keys"),
    at_length(properties(f"'api-key'='{SECRET}'", "'api-key'", "Did you mean 'primary-key'?")),
    at_length(properties(f"'sekret'='{SECRET}'", "'sekret'", "Valid keys")),
    properties("'routing-key'='idd'", "'routing-key' names 'idd'", "Did you mean 'id'?"),
    properties("'routing-key'='nothing'", "'routing-key' names 'nothing'", "Its columns are id, b"),
    properties("'routing-key'=\"left(b, 1)\"", "'routing-key'='left(b, 1)'", "neither a column nor", "concat(site,"),
    at_length(
        properties(
            "'routing-key'='upper(id)'", "upper of column 'id'", "for strings", condition="PRAVEGA_UNSUPPORTED_TYPE"
        )
    ),
    properties("'routing-key'=\"concat(id, '/', bb)\"", "'routing-key' names 'bb'", "Did you mean 'b'?"),
    properties("'routing-key'=\"concat('a', 'b')\"", "'routing-key'=", "no column", "the same key"),
    at_length(properties("'routing-key'=\"concat(id, '/' b)\"", "'routing-key'=", "neither a column nor")),
    at_length(properties("'routing-key'=\"id || \"", "'routing-key'=", "neither a column nor")),
    properties("'routing-key.of-all-events'='maybe'", "'maybe'", "'routing-key.of-all-events'", "true or false"),
    properties("'routing-key.of-all-events'='true'", "needs 'routing-key'", "Set both"),
    properties(
        "'format'='debezium-json', 'primary-key'='id', 'routing-key'='id', 'routing-key.of-all-events'='true'",
        "'routing-key.of-all-events' does not apply", "'debezium-json'", "Leave it out",
    ),
    at_length(properties("'framing'='both'", "'both'", "'framing'", "registry, confluent, none")),
    properties("'format'='csv', 'framing'='registry'", "'framing'='registry' needs a schema", "'csv'"),
    at_length(properties("'format'='csv', 'codec'='gzip'", "'codec'='gzip' needs 'framing'='registry'")),
    properties("'format'='csv', 'compatibility'='full'", "'compatibility' does not apply with 'format'='csv'"),
    at_length(properties("'format'='csv', 'csv.delimiter'=''", "'csv.delimiter'", "it is empty")),
    properties("'csv.null-value'='x'", "'csv.null-value' does not apply", "set 'format' to 'csv'"),
    at_length(properties("'csv.escape'='x'", "'csv.escape' does not apply", "set 'format' to 'csv'")),
    properties("'format'='json', 'json.timestamp-format'='epoch-days'", "'epoch-days'", "epoch-seconds, epoch-millis"),
    properties("'infer-columns'='sample'", "'infer-columns' does not apply", "'debezium-json' or 'maxwell-json'"),
    at_length(properties("'format'='debezium-json', 'infer-columns'='often'", "'often'", "schema, sample")),
    properties("'debezium.decimal'='precise'", "'debezium.decimal' does not apply", "'debezium-json'"),
    at_length(properties("'format'='debezium-json', 'debezium.decimal'='big'", "'big'", "string, precise, double")),
    at_length(properties("'format'='debezium-json', 'debezium.time-precision'='nano'", "'nano'", "adaptive, connect")),
    at_length(
        properties(
            "'format'='debezium-json', 'debezium.binary'='octal'", "'octal'", "bytes, base64, base64-url-safe, hex"
        )
    ),
    at_length(properties("'debezium.binary'='hex'", "'debezium.binary' does not apply", "'debezium-json'")),
    properties("'format'='debezium-json', 'debezium.time-units'='b=parsecs'", "'b=parsecs'", "s, ms, us, ns"),
    at_length(
        properties("'format'='debezium-json', 'debezium.truncates'='x'", "'debezium.truncates'", "true or false")
    ),
    properties("'format'='debezium-json', 'debezium.snapshots'='partial'", "'partial'", "a primary key"),
    at_length(
        properties("'format'='debezium-json', 'debezium.older-positions'='x'", "'debezium.older-positions'", "by-time")
    ),
    properties("'format'='debezium-json', 'debezium.avro-schemas'='[]'", "'debezium.avro-schemas'", "'debezium-avro'"),
    at_length(properties("'format'='debezium-avro', 'debezium.avro-schemas'='x'", "'x'", "the JSON itself")),
    at_length(properties("'debezium.unavailable-value'='x'", "'debezium.unavailable-value' does not apply")),
    properties("'format'='debezium-json', 'primary-key'='nothing'", "'primary-key' names 'nothing'", "id, b"),
    at_length(properties("'format'='debezium-json', 'primary-key'=''", "'primary-key'", "it is empty")),
    at_length(properties("'mode'='sometimes'", "'sometimes'", "failfast, permissive, dropmalformed")),
    properties("'mode'='failfast', 'dead-letter'='x'", "'mode'='failfast' contradicts 'dead-letter'='x'", "Leave one"),
    properties("'mode'='dropmalformed', 'dead-letter'='a/b/c'", "'a/b/c' is not a stream", "scope/stream"),
    properties("'scaling.factor'='1'", "'scaling.factor'", "2 to 1000"),
    at_length(properties("'scaling.type'='by-rate-mb'", "'by-rate-mb'", "fixed, by-rate-kb, by-rate-events")),
    properties("'event-time'='b'", "'event-time'='b'", "BIGINT for milliseconds", condition=TYPE),
    properties("'event-time'='nothing'", "'event-time' names 'nothing'", "id, b"),
    properties("'event-time.delay'='5min'", "'event-time.delay'='5min' needs 'event-time'", "leave both out"),
    properties("'event-time'='id', 'event-time.delay'='-5s'", "'-5s'", "500ms, 10s"),
    at_length(properties("'event-time'='id', 'event-time.delay'='4000d'", "'4000d'", "0s to 3650d")),
    at_length(properties("'event-time-timeout'='4000d'", "'4000d'", "1ms to 3650d")),
    at_length(properties("'event-time-timeout'='soon'", "'soon'", "500ms, 10s")),
    properties("'tags'='a,a'", "'tags'", "different names"),
    properties("'tags'='spark.x=1'", "'spark.x=1'", "hold table properties"),
    properties(
        f"'tags'='{','.join(map(str, range(200)))}'", "200 names in 'tags'", "128 tags", "Leave some", condition=NAME
    ),
    properties(f"'comment'='{'c' * 40_000}'", "128 tags", "shorten 'comment'", condition=NAME),
    at_length(properties("'codec'=''", "'codec'", "it is empty")),
    at_length(properties("'format'=''", "'format'", "it is empty")),
    properties("'retention.type'='size', 'retention.minimum'='-1g'", "'-1g'", "whole number of bytes"),
    properties("'retention.type'='time', 'retention.minimum'='99999999999d'", "the duration is too long"),
    at_length(properties("'names'='exact'", "'names' cannot be a table property", "catalog conf")),
    at_length(properties("'consumer'='c'", "'consumer' cannot be a table property", "read option")),
    properties("'epoch-column'='id'", "'epoch-column' does not apply with 'format'='avro'"),
    properties("'format'='kvtable', 'primary-key'='id', 'epoch-column'='nothing'", "'nothing'", "id, b", "BIGINT"),
    properties("'format'='kvtable', 'primary-key'='id', 'epoch-column'='b'", "'b'", "type string", "BIGINT"),
    properties("'stream-column'='id'", "'stream-column' cannot be a table property", "write option"),
    at_length(properties("'write-mode'='best-effort'", "'write-mode' cannot be a table property", "write option")),
    properties("'pravega.stream.name'='x'", "'pravega.stream.name'", "script setting"),
    at_length(properties("'schema-version'='0'", "'schema-version' cannot be a table property", "read option")),
]  # fmt: skip


def columns(text: str, condition: str, *words: str, format: str = "avro") -> object:
    """A CREATE TABLE with wrong columns."""
    statement = f"CREATE TABLE {{n}}.new ({text}) USING pravega TBLPROPERTIES ('format'='{format}')"
    return refusal(statement, condition, *words)


def keyed(text: str, key: str, condition: str, *words: str) -> object:
    """A CREATE TABLE with a routing key that cannot be one."""
    statement = f"CREATE TABLE {{n}}.new ({text}) USING pravega TBLPROPERTIES ('routing-key'='{key}')"
    return refusal(statement, condition, NEW, "'routing-key'", f"'{key}'", *words)


COLUMNS = [
    columns("id INT, i INTERVAL DAY TO SECOND", TYPE, NEW, "'i'", "interval day to second", "cast to string"),
    at_length(columns("id INT, i INTERVAL YEAR TO MONTH", TYPE, NEW, "'i'", "interval year to month", format="json")),
    columns("id INT, v VOID", TYPE, NEW, "'v'", "void", "cast it"),
    columns("id INT, v VARIANT", TYPE, NEW, "'v'", "variant", "to_json"),
    columns("id INT, v VARIANT", TYPE, NEW, "'v'", "variant", "one value", format="csv"),
    columns("id INT, m MAP<INT, STRING>", TYPE, NEW, "'m'", "map<int,string>", "map_entries"),
    columns("id INT, g GEOMETRY(4326)", TYPE, NEW, "'g'", "geometry", "st_asbinary"),
    columns(
        "id INT, s STRUCT<a: ARRAY<STRUCT<x: MAP<STRING, INTERVAL DAY>>>>",
        TYPE,
        NEW,
        "'s.a.element.x.value'",
        "interval day",
    ),
    columns(
        "s STRUCT<a: ARRAY<MAP<BIGINT, INT>>>", TYPE, NEW, "'s.a.element'", "map<bigint,int>", "array", format="json"
    ),
    columns("id INT, `a b` STRING", NAME, NEW, "'a b'", "use format json", "a_b"),
    at_length(columns("id INT, `1st` STRING", NAME, NEW, "'1st'", "use format json")),
    columns("id INT, s STRUCT<`a-b`: INT>", NAME, NEW, "'s.a-b'", "use format json"),
    columns("id INT, `` STRING", NAME, NEW, "empty name", format="json"),
    columns("id INT, _segment STRING", NAME, NEW, "_segment", "hidden column", "another name"),
    at_length(columns("id INT, _Offset BIGINT", NAME, NEW, "_Offset", "hidden column", "another name")),
    columns("id INT, ID STRING", "COLUMN_ALREADY_EXISTS", "`id`"),
    at_length(columns("id INT, id STRING", "COLUMN_ALREADY_EXISTS", "`id`")),
    columns("s STRUCT<a: INT, A: STRING>", "COLUMN_ALREADY_EXISTS", "`s`.`a`"),
    columns("id INT", TYPE, NEW, "id int", "`event BINARY`", "'format'='avro' or 'json'", format="raw"),
    columns("event STRING", TYPE, NEW, "event string", "`event BINARY`", format="raw"),
    columns("event BINARY, more INT", TYPE, NEW, "more int", "`event BINARY`", format="raw"),
    refusal("CREATE TABLE {n}.new USING pravega", TYPE, NEW, "no columns", "Declare them"),
    refusal(
        "CREATE TABLE {n}.new USING pravega TBLPROPERTIES ('format'='raw', 'framing'='registry')",
        OPTION, NEW, "'framing'='registry' needs a schema", "'format'='raw'",
    ),
    refusal(
        "CREATE TABLE {n}.new USING pravega TBLPROPERTIES ('format'='raw', 'codec'='gzip')",
        OPTION, NEW, "'codec'='gzip' needs 'framing'='registry'",
    ),
    refusal(
        "CREATE TABLE {n}.new USING pravega TBLPROPERTIES ('format'='raw', 'compatibility'='full')",
        OPTION, NEW, "'compatibility' does not apply with 'format'='raw'",
    ),
    keyed("id INT, d DOUBLE", "d", TYPE, "double", "Allowed are strings"),
    at_length(keyed("id INT, t TIMESTAMP", "t", TYPE, "timestamp", "Allowed are strings")),
    at_length(keyed("id INT, x BINARY", "x", TYPE, "binary", "Allowed are strings")),
    keyed("id INT, s STRUCT<a: INT>", "s", TYPE, "struct<a:int>", "Allowed are strings"),
    keyed("id INT, s STRUCT<a: INT>", "s.a", OPTION, "id, s"),
]  # fmt: skip


def defaulted(column: str, condition: str, *words: str, format: str = "avro") -> object:
    """A CREATE TABLE with a DEFAULT that cannot be."""
    statement = f"CREATE TABLE {{n}}.new (id INT, {column}) USING pravega TBLPROPERTIES ('format'='{format}')"
    return refusal(statement, condition, *words)


DEFAULTS = [
    defaulted("a INT DEFAULT 5", OPERATION, NEW, "DEFAULT 5 of column a", "'format'='csv'", "'avro'", format="csv"),
    defaulted("a INT DEFAULT 5", OPERATION, NEW, "'format'='debezium-json'", "'avro'", format="debezium-json"),
    defaulted("a ARRAY<INT> DEFAULT array(1)", TYPE, NEW, "'a'", "DEFAULT array(1)", "COALESCE"),
    defaulted("a ARRAY<INT> DEFAULT array(1)", TYPE, NEW, "'a'", "DEFAULT array(1)", "COALESCE", format="json"),
    defaulted("a STRUCT<b: INT> DEFAULT named_struct('b', 1)", TYPE, NEW, "'a'", "struct<b:int>"),
    defaulted("a DOUBLE DEFAULT double('NaN')", TYPE, NEW, "'a'", "double('NaN')", "COALESCE"),
    defaulted("a FLOAT DEFAULT float('Infinity')", TYPE, NEW, "'a'", "COALESCE", format="json"),
    defaulted(
        "a DECIMAL(38, 10) DEFAULT 1234567890123456789.5", TYPE, NEW, "'a'", "15 digits", "'avro'", format="json"
    ),
    defaulted("a INT DEFAULT 'abc'", "INVALID_DEFAULT_VALUE", "`a`", '"INT"'),
    defaulted("a INT DEFAULT (SELECT 1)", "INVALID_DEFAULT_VALUE", "`a`", "subquery"),
    defaulted("a DOUBLE DEFAULT rand()", "INVALID_DEFAULT_VALUE", "`a`", "non-deterministic"),
    defaulted("a INT DEFAULT id", "INVALID_DEFAULT_VALUE", "`a`"),
    defaulted("a INT DEFAULT nothing(1)", "UNRESOLVED_ROUTINE", "`nothing`"),
]

CREATE = "CREATE TABLE {n}.new (id INT, b STRING) "
CLAUSES = [
    refusal(CREATE + "USING parquet", OPTION, NEW, "USING parquet", "USING pravega"),
    at_length(refusal(CREATE + "USING nonsense", OPTION, NEW, "USING nonsense", "USING pravega")),
    refusal(CREATE + "STORED AS PARQUET", OPERATION, NEW, "STORED AS", "'format'"),
    refusal(CREATE + "USING pravega LOCATION '/tmp/x'", OPERATION, NEW, "/tmp/x", "Leave LOCATION out"),
    refusal("CREATE EXTERNAL TABLE {n}.new (id INT) USING pravega LOCATION '/tmp/x'", OPERATION, NEW, "EXTERNAL"),
    refusal("CREATE EXTERNAL TABLE {n}.new (id INT) USING pravega", OPERATION, NEW, "EXTERNAL", "Leave EXTERNAL out"),
    refusal(CREATE + "USING pravega PARTITIONED BY (id)", OPERATION, NEW, "(id)", "'routing-key'"),
    at_length(
        refusal(
            CREATE + "USING pravega PARTITIONED BY (bucket(4, id))", OPERATION, NEW, "bucket(4, id)", "'routing-key'"
        )
    ),
    refusal(CREATE + "USING pravega CLUSTERED BY (id) INTO 4 BUCKETS", OPERATION, NEW, "CLUSTERED BY", "'routing-key'"),
    refusal(CREATE + "USING pravega CLUSTER BY (id)", OPERATION, NEW, "CLUSTER BY", "'routing-key'"),
    at_length(
        refusal(CREATE + "USING pravega PARTITIONED BY (months(id))", OPERATION, NEW, "months(id)", "'routing-key'")
    ),
    at_length(refusal(CREATE + "STORED AS ORC", OPERATION, NEW, "STORED AS", "'format'")),
    refusal("CREATE TABLE {n}.new (id INT, id2 INT UNIQUE) USING pravega", OPERATION, NEW, "UNIQUE", "nothing checks"),
    refusal(
        "CREATE TABLE {n}.new (id INT REFERENCES {n}.t(id)) USING pravega",
        OPERATION, NEW, "FOREIGN KEY", "nothing checks",
    ),
    refusal("CREATE TABLE {n}.new LIKE {n}.t USING parquet", OPTION, NEW, "USING parquet", "USING pravega"),
    refusal("CREATE TABLE {n}.new LIKE {n}.t LOCATION '/tmp/x'", OPERATION, NEW, "/tmp/x", "Leave LOCATION out"),
    refusal("CREATE TABLE {n}.new LIKE {n}.missing", "TABLE_OR_VIEW_NOT_FOUND", "`missing`"),
    refusal("CREATE TABLE {n}.t LIKE {n}.t", "TABLE_OR_VIEW_ALREADY_EXISTS", "`t`"),
    refusal("CREATE TABLE {n}.`a_b c` LIKE {n}.t", NAME, "`a_b c`", "Use for example `a-b-c`"),
    refusal("CREATE TABLE {n}.new LIKE {n}.t TBLPROPERTIES ('foo'='bar')", OPTION, NEW, "'foo'", "Valid keys"),
    refusal("CREATE TABLE {n}.new LIKE {n}.t TBLPROPERTIES ('format'='raw')", OPTION, NEW, "'compatibility'", "'raw'"),
    refusal("CREATE TABLE {n}.new (id INT, c INT GENERATED ALWAYS AS (id + 1)) USING pravega", "UNSUPPORTED_FEATURE"),
    at_length(
        refusal("CREATE TABLE {n}.new (id BIGINT GENERATED ALWAYS AS IDENTITY) USING pravega", "UNSUPPORTED_FEATURE")
    ),
    refusal("CREATE TABLE {n}.new (id INT PRIMARY KEY) USING pravega", OPERATION, NEW, "PRIMARY KEY", "'avro'"),
    refusal("CREATE TABLE {n}.new (id INT, CHECK (id > 0)) USING pravega", OPERATION, NEW, "CHECK", "nothing checks"),
    refusal("CREATE TABLE {n}.t (id INT) USING pravega", "TABLE_OR_VIEW_ALREADY_EXISTS", "`t`"),
    at_length(refusal("CREATE TABLE {n}.t USING pravega AS SELECT 1 AS id", "TABLE_OR_VIEW_ALREADY_EXISTS", "`t`")),
    refusal("CREATE TABLE {n}.new USING pravega AS SELECT INTERVAL 1 DAY AS i", TYPE, NEW, "'i'", "interval day"),
    refusal("CREATE TABLE {n}.new USING pravega AS SELECT NULL AS x", TYPE, NEW, "'x'", "void"),
    refusal("CREATE TABLE {n}.new USING pravega AS SELECT 1 + 1", NAME, NEW, "'(1 + 1)'", "another name"),
    refusal("CREATE TABLE {n}.new USING pravega AS SELECT * FROM {n}.missing", "TABLE_OR_VIEW_NOT_FOUND", "`missing`"),
    refusal(
        "CREATE TABLE {n}.new USING pravega TBLPROPERTIES ('routing-key'='k') AS SELECT CAST(NULL AS STRING) AS k",
        ROW, "{s}/new", "'k' is null", "coalesce",
    ),
]  # fmt: skip

NAMES = [
    refusal("CREATE TABLE {n}.`a_b c` (id INT) USING pravega", NAME, "`a_b c`", "' '", "Use for example `a-b-c`"),
    refusal("CREATE TABLE {n}._a (id INT) USING pravega", NAME, "_a", "internal", "Use for example `a`"),
    refusal("CREATE TABLE {n}.`größe` (id INT) USING pravega", NAME, "`größe`", "Use for example"),
    refusal("CREATE TABLE {n}.`a/b` (id INT) USING pravega", NAME, "`a/b`", "Use for example `a-b`"),
    at_length(refusal("CREATE TABLE {n}.` ` (id INT) USING pravega", NAME, "` `", "Choose another name")),
    refusal("CREATE TABLE {n}.`` (id INT) USING pravega", NAME, "may not be empty"),
    refusal(f"CREATE TABLE {{n}}.`{'x' * 251}` (id INT) USING pravega", NAME, "251 characters", "at most 250"),
    refusal(f"CREATE TABLE {{n}}.`{'x' * 100_000}` (id INT) USING pravega", NAME, "100,000 characters", "at most 250"),
    refusal("CREATE TABLE {n}.`.` (id INT) USING pravega", NAME, "`.`", "means a folder"),
    at_length(refusal("CREATE TABLE {n}.`..` (id INT) USING pravega", NAME, "`..`", "means a folder")),
    refusal("CREATE NAMESPACE pravega.`..`", NAME, "`..`", "means a folder"),
    refusal(f"SHOW TABLES IN pravega.{'y' * 300}", "SCHEMA_NOT_FOUND"),
    refusal("CREATE TABLE pravega.new (id INT) USING pravega", NAME, "pravega.new", "USE pravega.<namespace>"),
    refusal("CREATE TABLE pravega.a.b.new (id INT) USING pravega", "SCHEMA_NOT_FOUND", "`a`.`b`"),
    refusal("CREATE TABLE pravega.missing.new (id INT) USING pravega", "SCHEMA_NOT_FOUND", "`missing`"),
    refusal("CREATE TABLE pravega._system.new (id INT) USING pravega", NAME, "_system", "Create it in another one"),
    refusal("DROP TABLE pravega._system._requeststream", "TABLE_OR_VIEW_NOT_FOUND", "`_requeststream`"),
    refusal("SELECT * FROM pravega._system._requeststream", "TABLE_OR_VIEW_NOT_FOUND", "`_requeststream`"),
    refusal("CREATE NAMESPACE pravega.a.b", NAME, "a.b", "2 parts", "`a-b`"),
    refusal("CREATE NAMESPACE pravega.`a_b c`", NAME, "a-b c", "' '", "`a-b-c`"),
    refusal("CREATE NAMESPACE pravega._x", NAME, "_x", "internal"),
    refusal("CREATE NAMESPACE pravega.``", NAME, "may not be empty"),
    refusal(f"CREATE NAMESPACE pravega.{'y' * 256}", NAME, "256 characters", "at most 255"),
    refusal("CREATE NAMESPACE {n}", "SCHEMA_ALREADY_EXISTS", "{s}"),
    refusal("CREATE NAMESPACE pravega.extra LOCATION '/tmp/x'", OPERATION, "pravega.extra", "Leave LOCATION out"),
    refusal("CREATE NAMESPACE pravega.extra DEFAULT COLLATION UTF8_LCASE", "UNSUPPORTED_FEATURE", "collation"),
    at_length(refusal("CREATE NAMESPACE pravega.a.b COMMENT 'x'", NAME, "a.b", "2 parts", "`a-b`")),
    refusal("ALTER NAMESPACE {n} SET LOCATION '/tmp/x'", OPERATION, "SET LOCATION", "pravega.{s}"),
    refusal("ALTER NAMESPACE pravega._system SET PROPERTIES ('a'='b')", OPERATION, "_system", "belongs to Pravega"),
    at_length(refusal("ALTER NAMESPACE pravega.a.b SET PROPERTIES ('a'='b')", "SCHEMA_NOT_FOUND", "`a`.`b`")),
    refusal("ALTER NAMESPACE pravega.missing SET PROPERTIES ('a'='b')", "SCHEMA_NOT_FOUND", "`missing`"),
    refusal("DROP NAMESPACE {n}", "SCHEMA_NOT_EMPTY", "{s}"),
    refusal("DROP NAMESPACE pravega.missing", "SCHEMA_NOT_FOUND", "`missing`"),
    at_length(refusal("DROP NAMESPACE pravega.a.b CASCADE", "SCHEMA_NOT_FOUND", "`a`.`b`")),
    refusal("DROP NAMESPACE pravega._system CASCADE", OPERATION, "_system", "belongs to Pravega"),
    refusal("SHOW TABLES IN pravega.missing", "SCHEMA_NOT_FOUND", "`missing`"),
    at_length(refusal("SHOW TABLES IN pravega.a.b", "SCHEMA_NOT_FOUND", "`a`.`b`")),
    refusal("SHOW TABLES IN pravega", NAME, "USE pravega.<namespace>"),
    at_length(refusal("SHOW NAMESPACES IN pravega.a.b", "SCHEMA_NOT_FOUND", "`a`.`b`")),
    at_length(refusal("DESCRIBE NAMESPACE pravega.missing", "SCHEMA_NOT_FOUND", "`missing`")),
    refusal("USE pravega.missing", "SCHEMA_NOT_FOUND", "`missing`"),
    refusal("SELECT * FROM {n}.missing", "TABLE_OR_VIEW_NOT_FOUND", "`missing`"),
    refusal("SELECT * FROM pravega.missing.t", "TABLE_OR_VIEW_NOT_FOUND", "`missing`"),
    at_length(refusal("SELECT * FROM pravega.a.b.t", "TABLE_OR_VIEW_NOT_FOUND", "`a`.`b`.`t`")),
    refusal("SELECT * FROM pravega.t", NAME, "USE pravega.<namespace>"),
    refusal("SELECT nothing FROM {n}.t", "UNRESOLVED_COLUMN", "`nothing`", "`id`"),
    refusal("INSERT INTO {n}.missing VALUES (1)", "TABLE_OR_VIEW_NOT_FOUND", "`missing`"),
    refusal("DROP TABLE {n}.missing", "TABLE_OR_VIEW_NOT_FOUND", "`missing`"),
    at_length(refusal("DESCRIBE TABLE {n}.missing", "TABLE_OR_VIEW_NOT_FOUND", "`missing`")),
    at_length(refusal("SHOW CREATE TABLE {n}.missing", "TABLE_OR_VIEW_NOT_FOUND", "`missing`")),
]


def altered(text: str, condition: str, *words: str) -> object:
    """An ALTER TABLE that is refused."""
    return refusal(f"ALTER TABLE {{n}}.t {text}", condition, *words)


TABLE = "pravega.{s}.t"
STATEMENTS = [
    altered("ADD COLUMN c INT NOT NULL", OPERATION, TABLE, "Column c", "NOT NULL out"),
    altered("ADD COLUMN c ARRAY<INT> DEFAULT array(1)", TYPE, TABLE, "'c'", "DEFAULT array(1)", "COALESCE"),
    altered("ADD COLUMN c INT NOT NULL DEFAULT NULL", OPERATION, TABLE, "Column c", "NOT NULL out"),
    altered("ADD COLUMN c INT DEFAULT 'x'", "INVALID_DEFAULT_VALUE", "`c`"),
    altered("ADD COLUMN c DOUBLE DEFAULT rand()", "INVALID_DEFAULT_VALUE", "`c`", "non-deterministic"),
    altered("ADD COLUMN id INT", "FIELD_ALREADY_EXISTS", "`id`"),
    at_length(altered("ADD COLUMN ID INT", "FIELD_ALREADY_EXISTS", "`ID`")),
    altered("ADD COLUMN b.c INT", "INVALID_FIELD_NAME", "`b`"),
    altered("ADD COLUMN nothing.c INT", "UNRESOLVED_COLUMN", "`nothing`"),
    altered("DROP COLUMN b.c", "INVALID_FIELD_NAME", "`b`.`c`"),
    at_length(altered("RENAME COLUMN b.c TO d", "INVALID_FIELD_NAME", "`b`.`c`")),
    at_length(altered("ALTER COLUMN b.c TYPE BIGINT", "INVALID_FIELD_NAME", "`b`.`c`")),
    altered("ADD COLUMN s STRUCT<v: VOID>", TYPE, TABLE, "'s.v'", "void"),
    at_length(altered("ADD COLUMN s STRUCT<`a-b`: INT>", NAME, TABLE, "'s.a-b'", "use format json")),
    altered("ADD COLUMN s STRUCT<a: INT> NOT NULL", OPERATION, TABLE, "Column s", "NOT NULL out"),
    altered("ADD COLUMN s MAP<INT, INT>", TYPE, TABLE, "'s'", "map_entries"),
    altered("ADD COLUMN c INT AFTER nothing", "FIELD_NOT_FOUND", "`c`"),
    altered("ALTER COLUMN id SET DEFAULT 'x'", "INVALID_DEFAULT_VALUE", "`id`"),
    at_length(altered("ALTER COLUMN nothing SET DEFAULT 1", "UNRESOLVED_COLUMN", "`nothing`", "`id`")),
    altered("ALTER COLUMN nothing TYPE BIGINT", "UNRESOLVED_COLUMN", "`nothing`", "`id`"),
    altered("ALTER COLUMN id TYPE SMALLINT", "NOT_SUPPORTED_CHANGE_COLUMN", "`id`"),
    altered("DROP COLUMN id", OPTION, TABLE, "'routing-key' names 'id'"),
    at_length(altered("DROP COLUMN nothing", "UNRESOLVED_COLUMN", "`nothing`")),
    altered("RENAME COLUMN id TO b", "FIELD_ALREADY_EXISTS", "`b`"),
    at_length(altered("RENAME COLUMN nothing TO c", "UNRESOLVED_COLUMN", "`nothing`")),
    altered("RENAME COLUMN id TO c", OPTION, TABLE, "'routing-key' names 'id'", "not a column"),
    altered("RENAME COLUMN b TO `b c`", "PRAVEGA_INVALID_NAME", TABLE, "'b c'"),
    altered("DEFAULT COLLATION UTF8_LCASE", OPERATION, "DEFAULT COLLATION", TABLE),
    at_length(altered("CLUSTER BY NONE", OPERATION, "CLUSTER BY", TABLE)),
    at_length(altered("DROP CONSTRAINT c", OPERATION, "CONSTRAINT", TABLE)),
    altered("ADD CONSTRAINT c PRIMARY KEY (id)", OPERATION, "CONSTRAINT", TABLE),
    at_length(altered("ADD CONSTRAINT c UNIQUE (id)", OPERATION, "CONSTRAINT", TABLE)),
    at_length(altered("DROP PARTITION (id=1)", "INVALID_PARTITION_OPERATION", "`t`")),
    at_length(altered("PARTITION (id=1) RENAME TO PARTITION (id=2)", "INVALID_PARTITION_OPERATION", "`t`")),
    altered("RECOVER PARTITIONS", OPERATION, "RECOVER PARTITIONS", TABLE, "Leave the statement out"),
    altered("SET SERDEPROPERTIES ('a'='b')", OPERATION, "SET SERDE", TABLE, "'format'"),
    altered("SET TBLPROPERTIES ('tags'='a,,b')", OPTION, TABLE, "'tags'", "separated by commas"),
    altered("SET TBLPROPERTIES ('tags'='spark.format=raw')", OPTION, TABLE, "'spark.format=raw'", "table properties"),
    altered(f"SET TBLPROPERTIES ('tags'='{'x' * 257}')", OPTION, TABLE, "'tags'", "256"),
    at_length(altered("SET TBLPROPERTIES ('rollover-size'='0')", OPTION, TABLE, "'rollover-size'", "at least 1")),
    altered("SET TBLPROPERTIES ('rollover-size'='big')", OPTION, TABLE, "'big'", "64k"),
    altered("SET TBLPROPERTIES ('scaling.type'='by-rate-kb')", OPTION, TABLE, "needs 'scaling.target-rate'"),
    altered("SET TBLPROPERTIES ('scaling.target-rate'='10')", OPTION, TABLE, "'scaling.type'='fixed'"),
    at_length(altered("SET TBLPROPERTIES ('scaling.factor'='4')", OPTION, TABLE, "'scaling.type'='fixed'")),
    altered(
        "SET TBLPROPERTIES ('scaling.type'='by-rate-kb', 'scaling.target-rate'='0')",
        OPTION, TABLE, "'0'", "out of range",
    ),
    altered("SET TBLPROPERTIES ('retention.maximum'='7d')", OPTION, TABLE, "needs 'retention.type'"),
    altered(
        "SET TBLPROPERTIES ('retention.type'='size', 'retention.minimum'='7d')", OPTION, TABLE, "'7d'", "bytes"
    ),
    altered(
        "SET TBLPROPERTIES ('retention.type'='size', 'retention.minimum'='2g', 'retention.maximum'='1g')",
        OPTION, TABLE, "must be more than",
    ),
    altered("SET TBLPROPERTIES ('retention.type'='time', 'retention.minimum'='0s')", OPTION, TABLE, "more than 0"),
    altered("SET TBLPROPERTIES ('event-time-timeout'='0ms')", OPTION, TABLE, "'event-time-timeout'", "1ms to 3650d"),
    altered("SET TBLPROPERTIES ('event-time'='b')", "PRAVEGA_UNSUPPORTED_TYPE", TABLE, "'event-time'='b'"),
    at_length(altered("SET TBLPROPERTIES ('event-time'='nothing')", OPTION, TABLE, "'event-time' names 'nothing'")),
    at_length(altered("SET TBLPROPERTIES ('compatibility'='sometimes')", OPTION, TABLE, "'sometimes'", "backward")),
    at_length(altered("SET TBLPROPERTIES ('mode'='sometimes')", OPTION, TABLE, "'sometimes'", "permissive")),
    altered("SET TBLPROPERTIES ('csv.quote'='x')", OPTION, TABLE, "'csv.quote' does not apply", "'csv'"),
    altered("SET TBLPROPERTIES ('json.timestamp-format'='iso')", OPTION, TABLE, "'json.timestamp-format'"),
    altered("SET TBLPROPERTIES ('primary-key'='id')", OPTION, TABLE, "'primary-key' does not apply"),
    at_length(
        altered("SET TBLPROPERTIES ('read-window'='8m')", OPTION, TABLE, "'read-window' cannot be a table property")
    ),
    altered("SET TBLPROPERTIES ('controller-uri'='tcp://x:1')", OPTION, TABLE, "'controller-uri'"),
    altered("ADD COLUMN `c-d` INT", "PRAVEGA_INVALID_NAME", TABLE, "'c-d'", "format json"),
    altered("ADD COLUMN c INTERVAL DAY", "PRAVEGA_UNSUPPORTED_TYPE", TABLE, "'c'"),
    altered("ALTER COLUMN id TYPE STRING", OPERATION, TABLE, "Column id", "int to string", "int to bigint"),
    altered("REPLACE COLUMNS (x INT)", OPERATION, TABLE, "Column b", "ADD, DROP and RENAME COLUMN"),
    altered("CLUSTER BY (id)", OPERATION, "CLUSTER BY", TABLE, "Create another table"),
    altered("SET LOCATION '/tmp/x'", OPERATION, "SET LOCATION", TABLE),
    altered("ADD CONSTRAINT c CHECK (id > 0)", OPERATION, "CONSTRAINT", TABLE, "Create another table"),
    altered("ADD PARTITION (id=1)", "INVALID_PARTITION_OPERATION", "`t`"),
    altered("RENAME TO {n}.u", OPERATION, "RENAME", TABLE, "INSERT INTO it"),
    altered("SET TBLPROPERTIES ('foo'='bar')", OPTION, TABLE, "'foo'", "'bar'", "Valid keys"),
    altered("SET TBLPROPERTIES ('format'='json')", OPTION, TABLE, "'format' is fixed", "another table"),
    altered("SET TBLPROPERTIES ('framing'='none')", OPTION, TABLE, "'framing'='none' does not fit", "have the header"),
    altered("SET TBLPROPERTIES ('routing-key'='nothing')", OPTION, TABLE, "'routing-key' names 'nothing'", "id, b"),
    altered("SET TBLPROPERTIES ('codec'='zstd')", OPTION, TABLE, "'zstd'", "none, gzip, snappy"),
    altered("SET TBLPROPERTIES ('scaling.min-segments'='4')", OPTION, TABLE, "'scaling.min-segments' stays 1"),
    altered("SET TBLPROPERTIES ('retention.type'='time')", OPTION, TABLE, "needs 'retention.minimum'"),
    at_length(altered("SET TBLPROPERTIES ('retention.minimum'='1d')", OPTION, TABLE, "needs 'retention.type'")),
    altered(f"SET TBLPROPERTIES ('security.password'='{SECRET}')", OPTION, TABLE, "'security.password'"),
    refusal("ALTER TABLE {n}.missing SET TBLPROPERTIES ('codec'='gzip')", "TABLE_OR_VIEW_NOT_FOUND", "`missing`"),
    refusal("TRUNCATE TABLE {n}.t PARTITION (id=1)", "INVALID_PARTITION_OPERATION", "`t`"),
    refusal("TRUNCATE TABLE {n}.missing", "TABLE_OR_VIEW_NOT_FOUND", "`missing`"),
    refusal("DELETE FROM {n}.t WHERE id = 1", OPERATION, "DELETE", TABLE, "Filter when reading", "TRUNCATE TABLE"),
    at_length(refusal("DELETE FROM {n}.t WHERE id IN (SELECT 1)", OPERATION, "DELETE", TABLE, "Filter when reading")),
    refusal("DELETE FROM {n}.missing", "TABLE_OR_VIEW_NOT_FOUND", "`missing`"),
    refusal("UPDATE {n}.t SET nothing = 1", "UNRESOLVED_COLUMN", "`nothing`"),
    refusal(
        "MERGE INTO {n}.t USING (SELECT 1 AS k) s ON {n}.t.id = s.k WHEN MATCHED THEN DELETE",
        OPERATION, "MERGE", TABLE, "Append the new state", "'kvtable'",
    ),
    refusal("INSERT INTO {n}.t REPLACE USING (id) SELECT 1, 'z'", "UNSUPPORTED_FEATURE", "REPLACE"),
    refusal(
        "INSERT WITH SCHEMA EVOLUTION INTO {n}.t BY NAME SELECT 'x' AS id, 'y' AS b",
        "INCOMPATIBLE_DATA_FOR_TABLE", "`id`",
    ),
    refusal(
        "INSERT WITH SCHEMA EVOLUTION INTO {n}.t BY NAME SELECT 1 AS id, INTERVAL 1 DAY AS i",
        "UNSUPPORTED_AUTO_SCHEMA_EVOLUTION_CHANGES", "`t`", TYPE, "'i'", "interval day",
    ),
    refusal("INSERT INTO {n}.t BY NAME SELECT 1 AS id, 2 AS nothing", "INCOMPATIBLE_DATA_FOR_TABLE", "`nothing`"),
    refusal("SELECT pravega.system.nothing(1)", "UNRESOLVED_ROUTINE", "`nothing`"),
    refusal("SELECT {n}.missing.segment_of('a')", "TABLE_OR_VIEW_NOT_FOUND", "missing"),
    refusal("SELECT {n}.t.nothing('a')", "UNRESOLVED_ROUTINE", "`nothing`"),
    refusal("DROP FUNCTION {n}.f", "MISSING_CATALOG_ABILITY", "pravega"),
    refusal("ALTER VIEW {n}.t AS SELECT 1 AS a", "EXPECT_VIEW_NOT_TABLE", "`t`"),
    refusal("SHOW VIEWS IN pravega.missing", "SCHEMA_NOT_FOUND", "`missing`"),
    refusal("DESCRIBE TABLE EXTENDED {n}.t AS JSON", OPERATION, "AS JSON", TABLE, "SHOW TBLPROPERTIES"),
    refusal("CREATE INDEX i ON {n}.t (id)", OPERATION, "CREATE INDEX", TABLE, "_offset"),
    at_length(refusal("DROP INDEX i ON {n}.t", OPERATION, "DROP INDEX", TABLE)),
    refusal("ANALYZE TABLE {n}.missing COMPUTE STATISTICS", "TABLE_OR_VIEW_NOT_FOUND", "`missing`"),
    refusal("ANALYZE TABLE {n}.t COMPUTE STATISTICS FOR ALL COLUMNS", OPERATION, "FOR COLUMNS", TABLE, "Leave"),
    refusal("SHOW CREATE TABLE {n}.t AS SERDE", "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE", "AS SERDE"),
    refusal("SHOW TABLE EXTENDED IN {n} LIKE 't' PARTITION (id=1)", "INVALID_PARTITION_OPERATION", "`t`"),
    at_length(refusal("CACHE TABLE {n}.missing", "TABLE_OR_VIEW_NOT_FOUND", "`missing`")),
    at_length(refusal("REFRESH TABLE {n}.missing", "TABLE_OR_VIEW_NOT_FOUND", "`missing`")),
    at_length(refusal("COMMENT ON TABLE {n}.missing IS 'x'", "TABLE_OR_VIEW_NOT_FOUND", "`missing`")),
    refusal("COMMENT ON COLUMN {n}.t.nothing IS 'x'", "UNRESOLVED_COLUMN", "`nothing`"),
    at_length(refusal("SHOW TBLPROPERTIES {n}.missing", "TABLE_OR_VIEW_NOT_FOUND", "`missing`")),
    at_length(refusal("SHOW COLUMNS IN {n}.missing", "TABLE_OR_VIEW_NOT_FOUND", "`missing`")),
    refusal("DESCRIBE {n}.t nothing", "UNRESOLVED_COLUMN", "`nothing`"),
    at_length(refusal("DROP TABLE {n}.missing PURGE", "TABLE_OR_VIEW_NOT_FOUND", "`missing`")),
    refusal("UPDATE {n}.t SET b = 'z'", OPERATION, "UPDATE", TABLE, "Append the new state", "'kvtable'"),
    refusal(
        "MERGE INTO {n}.t USING (SELECT 1 AS k) s ON {n}.t.id = s.k WHEN MATCHED THEN UPDATE SET b = 'z'",
        OPERATION, "MERGE", TABLE, "Append the new state", "'kvtable'",
    ),
    refusal(
        "INSERT INTO {n}.t SELECT * FROM STREAM {n}.t",
        OPERATION, "INSERT ... FROM STREAM", TABLE, "`pyspark-pravega run job.sql`", "writeStream",
    ),
    refusal(
        "INSERT INTO {n}.t (id) SELECT id FROM STREAM {n}.t CHANGES FROM VERSION 1",
        OPERATION, "INSERT ... FROM STREAM", TABLE,
    ),
    refusal(
        "CREATE TABLE {n}.new AS SELECT * FROM STREAM {n}.t",
        OPERATION, "CREATE TABLE ... AS SELECT FROM STREAM", NEW, "`pyspark-pravega run job.sql`", "writeStream",
    ),
    refusal("SELECT * FROM {n}.t CHANGES", OPERATION, "CHANGES without FROM", TABLE, "FROM VERSION 1", "AS changes"),
    refusal("SELECT count(*) FROM {n}.t changes WHERE id > 0", OPERATION, "CHANGES without FROM", TABLE),
    at_length(refusal("SELECT 1 WHERE EXISTS (SELECT 1 FROM {n}.t CHANGES)", OPERATION, "CHANGES without FROM", TABLE)),
    refusal("SELECT * FROM {n}.t.history CHANGES", OPERATION, "CHANGES without FROM", TABLE + ".history"),
    refusal("DESCRIBE HISTORY {n}.t", OPERATION, "DESCRIBE HISTORY", TABLE, "<table>.history"),
    at_length(refusal("DESC HISTORY {n}.t LIMIT 1", OPERATION, "DESCRIBE HISTORY", TABLE, "<table>.history")),
    refusal("DESCRIBE DETAIL {n}.t", OPERATION, "DESCRIBE DETAIL", TABLE, "DESCRIBE TABLE EXTENDED"),
    refusal("OPTIMIZE {n}.t WHERE id = 1 ZORDER BY (b)", OPERATION, "OPTIMIZE", TABLE, "compact_history"),
    refusal("-- clean up\n /* now */ vacuum {n}.t", OPERATION, "VACUUM", TABLE, "truncate_stream"),
    refusal("RESTORE TABLE {n}.t TO VERSION AS OF 1", OPERATION, "RESTORE TABLE", TABLE, "VERSION AS OF"),
    at_length(refusal("RESTORE {n}.t TO VERSION AS OF 1", OPERATION, "RESTORE TABLE", TABLE, "VERSION AS OF")),
    refusal("ALTER TABLE {n}.t EXECUTE optimize", OPERATION, "EXECUTE", TABLE, "SHOW PROCEDURES"),
    refusal("ALTER TABLE {n}.t CREATE TAG `x` AS OF VERSION 1", OPERATION, "TAG", TABLE, "create_tag"),
    refusal("ALTER TABLE {n}.t CREATE OR REPLACE BRANCH x", OPERATION, "BRANCH", TABLE, "no branches"),
    refusal("ALTER TABLE {n}.t ADD PARTITION FIELD bucket(4, id)", OPERATION, "FIELD", TABLE, "'routing-key'"),
    refusal("ALTER TABLE {n}.t WRITE ORDERED BY id", OPERATION, "ALTER TABLE ... WRITE", TABLE, "ORDER BY"),
    refusal("ALTER TABLE {n}.t SET IDENTIFIER FIELDS id", OPERATION, "IDENTIFIER FIELDS", TABLE, "'primary-key'"),
    refusal("CALL pravega.system.rewrite_data_files(table => 't')", NAME, "rewrite_data_files", "no files to rewrite"),
    refusal("CALL pravega.system.expire_snapshots('t')", NAME, "expire_snapshots", "truncate_stream"),
    refusal("SELECT * FROM {n}.t.snapshots", NAME, TABLE, "no table snapshots", "Did you mean pravega.{s}.t.history?"),
    at_length(
        refusal("SELECT * FROM {n}.t.files", NAME, TABLE, "no table files", "Did you mean pravega.{s}.t.segments?")
    ),
    refusal(
        "CREATE TABLE spark_catalog.default.plain (id INT) USING pravega",
        OPERATION, "CREATE TABLE plain USING pravega", "in spark_catalog", "pravega.<namespace>.plain",
    ),
    refusal(
        "CREATE TABLE spark_catalog.default.plain USING pravega AS SELECT 1 AS id",
        OPERATION, "CREATE TABLE plain USING pravega", "in spark_catalog", "pravega.<namespace>.plain",
    ),
    refusal("INSERT OVERWRITE {n}.t VALUES (1, 'z')", OPERATION, "INSERT OVERWRITE", TABLE, "Use INSERT INTO"),
    refusal("INSERT OVERWRITE {n}.t PARTITION (id=1) VALUES ('z')", "NON_PARTITION_COLUMN", "`id`"),
    refusal("INSERT INTO {n}.t REPLACE WHERE id = 1 VALUES (1, 'z')", OPERATION, TABLE, "Use INSERT INTO"),
    refusal("REPLACE TABLE {n}.t (x INT) USING pravega", OPERATION, "REPLACE TABLE", TABLE, "DROP TABLE"),
    at_length(refusal("REPLACE TABLE {n}.t USING pravega AS SELECT 1 AS x", OPERATION, "REPLACE TABLE", TABLE)),
    refusal("CREATE OR REPLACE TABLE {n}.t (x INT) USING pravega", OPERATION, "REPLACE TABLE", TABLE, "IF NOT EXISTS"),
    at_length(
        refusal("CREATE OR REPLACE TABLE {n}.t USING pravega AS SELECT 1 AS x", OPERATION, "REPLACE TABLE", TABLE)
    ),
    refusal("SELECT * FROM {n}.t VERSION AS OF 2", OPTION, TABLE, "VERSION AS OF 2", "the newest one is 1, published"),
    refusal("SELECT * FROM {n}.t VERSION AS OF 0", OPTION, TABLE, "the oldest one in its commit log is 1, published"),
    refusal("SELECT * FROM {n}.t VERSION AS OF 'release'", OPTION, TABLE, "'release'", "nor a tag", "has no tags"),
    refusal("SELECT * FROM {n}.t TIMESTAMP AS OF '2020-01-01'", OPTION, TABLE, "lies before 1, published"),
    refusal("SELECT * FROM {n}.t TIMESTAMP AS OF '2199-01-01'", OPTION, TABLE, "2199-01-01", "future"),
    refusal(
        "SELECT * FROM {n}.t VERSION AS OF 1 WITH ('end-version'='1')",
        OPTION, TABLE, "'end-version' and VERSION AS OF '1'", "Leave one of them out",
    ),
    refusal("SELECT * FROM {n}.t.history VERSION AS OF 1", OPERATION, TABLE + ".history", "has no versions"),
    refusal(
        "SELECT * FROM {n}.t.history WITH ('end-version'='1')", OPTION, TABLE + ".history", "'end-version'", "WHERE",
    ),
    refusal("SELECT * FROM {n}.t.history CHANGES FROM VERSION 1", OPERATION, TABLE + ".history", "has no changes"),
    refusal("ANALYZE TABLES IN pravega.missing COMPUTE STATISTICS", "SCHEMA_NOT_FOUND", "`missing`"),
    refusal("TRUNCATE TABLE {n}.t.segments", OPERATION, TABLE + ".segments", "can only be read"),
    refusal("SELECT * FROM {n}.t.histroy", NAME, TABLE, "no table histroy", "history, segments, schemas"),
    refusal("SELECT * FROM {n}.missing.history", "TABLE_OR_VIEW_NOT_FOUND", "`missing`"),
    refusal("SELECT * FROM pravega.missing.t.history", "TABLE_OR_VIEW_NOT_FOUND", "`missing`"),
    refusal("SELECT * FROM {n}.t.history.more", "TABLE_OR_VIEW_NOT_FOUND", "`history`"),
    refusal("INSERT INTO {n}.t.tags VALUES ('x')", OPERATION, TABLE + ".tags", "can only be read"),
    at_length(refusal("DROP TABLE {n}.t.history", OPERATION, TABLE + ".history", "can only be read")),
    refusal("ALTER TABLE {n}.t.history ADD COLUMN x INT", OPERATION, TABLE + ".history", "can only be read"),
    refusal("ALTER TABLE {n}.t.nothing ADD COLUMN x INT", NAME, TABLE, "no table nothing"),
    refusal("CREATE TABLE {n}.t.history (x INT)", "SCHEMA_NOT_FOUND", "`t`"),
    at_length(refusal("CREATE TABLE {n}.t.more (x INT)", "SCHEMA_NOT_FOUND", "`t`")),
    refusal("SHOW TABLES IN {n}.t", "SCHEMA_NOT_FOUND", "`t`"),
    refusal("SELECT nothing(1)", "UNRESOLVED_ROUTINE", "`nothing`"),
    refusal("SELECT {n}.nothing(1)", "UNRESOLVED_ROUTINE", "`nothing`"),
    refusal("DESCRIBE FUNCTION {n}.nothing", "UNRESOLVED_ROUTINE", "`nothing`"),
    refusal("SHOW FUNCTIONS IN pravega.missing", "SCHEMA_NOT_FOUND", "`missing`"),
    refusal("SELECT * FROM {n}.missing VERSION AS OF 1", "TABLE_OR_VIEW_NOT_FOUND", "`missing`"),
    refusal(
        "CREATE VIEW {n}.v WITH METRICS LANGUAGE YAML AS $$\nversion: 0.1\nsource: {n}.t\ndimensions:\n- name: d\n"
        "  expr: id\nmeasures:\n- name: m\n  expr: count(1)\n$$",
        OPERATION, "WITH METRICS", "views of metrics are not supported",
    ),
    refusal("CREATE OR REPLACE VIEW {n}.t AS SELECT 1 AS a", "EXPECT_VIEW_NOT_TABLE", "`t`"),
    refusal("CREATE FUNCTION {n}.f AS 'x.Y'", "MISSING_CATALOG_ABILITY", "pravega"),
    refusal("ANALYZE TABLE {n}.t PARTITION (id=1) COMPUTE STATISTICS", OPERATION, TABLE, "Leave PARTITION out"),
    refusal("LOAD DATA INPATH '/tmp/x' INTO TABLE {n}.t", OPERATION, "LOAD DATA", TABLE, "INSERT INTO"),
    refusal("MSCK REPAIR TABLE {n}.t", OPERATION, "MSCK REPAIR TABLE", TABLE, "Leave the statement out"),
    refusal("SHOW PARTITIONS {n}.t", "INVALID_PARTITION_OPERATION", "`t`"),
    refusal("DROP VIEW {n}.t", "WRONG_COMMAND_FOR_OBJECT_TYPE", "DROP TABLE"),
]  # fmt: skip


def inserted(rows: str, condition: str, *words: str) -> object:
    """An INSERT into the table `t` that is refused."""
    return refusal(f"INSERT INTO {{n}}.t {rows}", condition, *words)


def read(option: str, value: str, *words: str) -> object:
    """A SELECT with a wrong read option."""
    return refusal(f"SELECT * FROM {{n}}.t WITH ('{option}'='{value}')", OPTION, TABLE, f"'{option}'", *words)


def written(option: str, value: str, *words: str) -> object:
    """An INSERT with a wrong write option."""
    statement = f"INSERT INTO {{n}}.t WITH ('{option}'='{value}') VALUES (3, 'z')"
    return refusal(statement, OPTION, TABLE, f"'{option}'", *words)


QUERIES = [
    inserted("VALUES (NULL, 'z')", ROW, "{s}/t", "'id' is null", "coalesce(id, ...)"),
    at_length(inserted("SELECT IF(id = 77, NULL, CAST(id AS INT)), 'z' FROM range(100)", ROW, "{s}/t", "'id' is null")),
    inserted("VALUES (3)", "INSERT_COLUMN_ARITY_MISMATCH", "`t`", "`id`, `b`"),
    inserted("VALUES (3, 'z', 1)", "INSERT_COLUMN_ARITY_MISMATCH", "`t`", "`id`, `b`"),
    inserted("VALUES ('three', 'z')", "INCOMPATIBLE_DATA_FOR_TABLE", "`t`", "`id`"),
    at_length(inserted("VALUES (array(3), 'z')", "INCOMPATIBLE_DATA_FOR_TABLE", "`t`", "`id`")),
    inserted("VALUES (3000000000, 'z')", "CAST_OVERFLOW_IN_TABLE_INSERT", "`id`"),
    at_length(inserted("SELECT id + 3000000000, 'z' FROM range(3)", "CAST_OVERFLOW_IN_TABLE_INSERT", "`id`")),
    inserted("(id, nothing) VALUES (3, 'z')", "UNRESOLVED_COLUMN", "`nothing`"),
    inserted("(id, _offset) VALUES (3, 4)", "INCOMPATIBLE_DATA_FOR_TABLE", "`_offset`"),
    at_length(inserted("SELECT CAST(1 / (id - 50) AS INT), 'z' FROM range(100)", "DIVIDE_BY_ZERO")),
    inserted("SELECT 3, raise_error('my own words')", "USER_RAISED_EXCEPTION", "my own words"),
    at_length(
        inserted(
            "SELECT 3, repeat('x', 8 * 1024 * 1024)", "PRAVEGA_EVENT_TOO_LARGE", "{s}/t", "8,388,608", "Split the row"
        )
    ),
    at_length(written("trasaction.lease", "20s", "Did you mean 'transaction.lease'?")),
    written("transaction.lease", "1s", "'1s'", "10s to 600s"),
    written("read-window", "8m", "cannot be a write option"),
    written("transaction.timeout", "0s", "'0s'", "1s to 1d"),
    at_length(written("spool.memory", "1", "'1'", "1m to 1t")),
    written("write-mode", "x", "'x'", "transactional, at-least-once, best-effort"),
    written("stream-column", "target", "'target'", "not a column of the rows", "id, b"),
    written("stream-column", "id", "'id'", "type int", "STRING"),
    refusal(
        "INSERT INTO {n}.t WITH ('stream-column'='b') VALUES (3, 't'), (4, 'nowhere')",
        "PRAVEGA_STREAM_NOT_FOUND",
        "{s}/nowhere",
        "'b' names",
        "CREATE TABLE",
        "No row of this INSERT",
    ),
    at_length(
        refusal(
            "INSERT INTO {n}.t WITH ('stream-column'='b') VALUES (3, 't'), (4, NULL)",
            ROW,
            "{s}/t",
            "'b'",
            "NULL",
            "No row of this INSERT is visible",
        )
    ),
    written("mode", "permissive", "cannot be a write option", "table property"),
    at_length(written("tags", "a", "cannot be a write option", "table property")),
    written("routing-key", "nothing", "'routing-key' names 'nothing'", "id, b"),
    written("codec", "zstd", "'zstd'", "none, gzip, snappy"),
    written("format", "json", "the table itself sets it"),
    written("controller-uri", "tcp://elsewhere:1", "catalog pravega sets it", "df.write.format('pravega')"),
    written("security.password", SECRET, "catalog pravega sets it"),
    read("foo", "bar", "'bar'", "Valid keys"),
    refusal(
        "SELECT * FROM {n}.t WITH ('startingOffsets'='earliest', 'zzzz'='1', 'includeHeaders'='true', 'qqqq'='2')",
        OPTION,
        TABLE,
        "'startingOffsets' (value 'earliest'). Did you mean 'startStreamCut'?",
        "have no headers",
        "no read option 'zzzz' (value '1'). There",
        "no read option 'qqqq' (value '2'). Valid keys: ",
    ),
    at_length(read("readwindw", "8m", "'8m'", "Did you mean 'readWindow'?")),
    read("pasword", SECRET, "Did you mean 'security.password'?"),
    read("read-window", "1x", "'1x'", "64k"),
    at_length(read("read-window", "1", "'1'", "64k to 256m")),
    read("fail-on-data-loss", "maybe", "'maybe'", "true or false"),
    read("current-rows.remembered-in", "rows", "'rows'", "absolute path", "s3a://bucket/rows"),
    read("current-rows.remembered-in", f"s3a://me:{SECRET}@rows/x", "must not hold credentials", "Hadoop's"),
    read("transaction.lease", "20s", "cannot be a read option"),
    read("stream", "other", "the table itself sets it"),
    read("controller-uri", "tcp://elsewhere:1", "catalog pravega sets it"),
    read("start-version", "0", "'0'", "1 to"),
    at_length(read("end-version", "x", "'x'", "whole number")),
    read("end-timestamp", "yesterday", "'yesterday'", "2026-01-31T12:00:00Z"),
    read("schema-version", "-1", "'-1'", "out of range"),
    at_length(read("columnar-reads", "x", "'x'", "true or false")),
    at_length(read("push-down-filters", "x", "'x'", "true or false")),
    read("lookup-keys.max", "50000", "'50000'", "0 to 20000"),
    read("lookup-keys.timeout", "1ms", "'1ms'", "100ms"),
    read("mode", "x", "'x'", "failfast, permissive, dropmalformed"),
    at_length(read("max-rows-per-trigger", "0", "'0'", "out of range")),
    read("max-event-time-drift", "0s", "'0s'", "at least 1ms"),
    at_length(read("max-event-time-drift", "soon", "'soon'", "5min")),
    read("max-event-time-drift", "5 minutes", "a batch has no micro-batches", "Leave it out"),
    read("consumer", "", "it is empty"),
    at_length(read("names", "exact", "cannot be a read option", "catalog conf")),
    read("queries.run", "true", "cannot be a read option", "catalog conf"),
    at_length(read("queries.lease", "1s", "cannot be a read option", "catalog conf")),
    read("txn-version", "1", "cannot be a read option", "write option"),
    read("start-stream-cut", "latest", "leaves nothing to read"),
    read("end-stream-cut", "earliest", "leaves nothing to read"),
    read("start-stream-cut", "consumer", "'start-stream-cut'='consumer' needs 'consumer'", "Give both"),
    read("end-stream-cut", "consumer", "'consumer'", "or 'latest'"),
    read("consumer", "nightly", "a batch has no consumer", "give 'start-stream-cut'='consumer' too"),
    read("start-stream-cut", "garbage", "'garbage'", "not base64", "asText()"),
    read("end-stream-cut", "Z2FyYmFnZQ==", "not compressed with gzip", "asText()"),
]


@pytest.mark.parametrize("case", PROPERTIES)
def test_properties(watched: Watched, case: Refusal) -> None:
    watched.refuse(case)


@pytest.mark.parametrize("case", COLUMNS)
def test_columns(watched: Watched, case: Refusal) -> None:
    watched.refuse(case)


@pytest.mark.parametrize("case", DEFAULTS)
def test_defaults(watched: Watched, case: Refusal) -> None:
    watched.refuse(case)


@pytest.mark.parametrize("case", CLAUSES)
def test_clauses_of_create_table(watched: Watched, case: Refusal) -> None:
    watched.refuse(case)


@pytest.mark.parametrize("case", NAMES)
def test_names(watched: Watched, case: Refusal) -> None:
    watched.refuse(case)
    assert not {"extra", "a-b", "a-b c", "_x"} & set(watched.pravega.controller.list_scopes())


@pytest.mark.parametrize("case", STATEMENTS)
def test_statements_on_a_table(watched: Watched, case: Refusal) -> None:
    watched.refuse(case)


@pytest.mark.parametrize("case", QUERIES)
def test_queries(watched: Watched, case: Refusal) -> None:
    watched.refuse(case)


def test_the_table_of_all_these_refusals_has_its_rows(watched: Watched) -> None:
    assert watched.sql.run(f"SELECT * FROM {watched.name}.t ORDER BY id") == [("1", "x"), ("2", "y")]


EVERYWHERE = [
    properties("'fromat'='avro'", "'fromat'", "'avro'", "Did you mean 'format'?"),
    properties(f"'pasword'='{SECRET}'", "'pasword'", "Valid keys"),
    columns("id INT, s STRUCT<a: ARRAY<INTERVAL DAY>>", TYPE, NEW, "'s.a.element'", "interval day"),
    refusal("CREATE TABLE {n}.`a b` (id INT) USING pravega", NAME, "`a b`", "Use for example `a-b`"),
    refusal("CREATE TABLE {n}.t (id INT) USING pravega", "TABLE_OR_VIEW_ALREADY_EXISTS", "`t`"),
    refusal("DELETE FROM {n}.t WHERE id = 1", OPERATION, "DELETE", TABLE, "TRUNCATE TABLE"),
    refusal("SELECT * FROM {n}.missing", "TABLE_OR_VIEW_NOT_FOUND", "`missing`"),
    inserted("VALUES (NULL, 'z')", ROW, "{s}/t", "'id' is null", "coalesce(id, ...)"),
    inserted("SELECT 3, repeat('x', 8 * 1024 * 1024)", "PRAVEGA_EVENT_TOO_LARGE", "{s}/t", "8,388,608"),
    read("start-stream-cut", "consumer", "'start-stream-cut'='consumer' needs 'consumer'", "Give both"),
    read("end-stream-cut", "consumer", "'consumer'", "or 'latest'"),
    read("consumer", "nightly", "a batch has no consumer", "give 'start-stream-cut'='consumer' too"),
    read("start-stream-cut", "garbage", "'garbage'", "not base64"),
]
"""What `test_sql_behaviours` gives to every front end."""


def test_a_merge_that_only_inserts_is_an_insert(
    spark: SparkSession, client_config: ClientConfig, fresh_name: str
) -> None:
    """Spark itself turns it into an INSERT of the rows that have no match."""
    with connect(client_config) as pravega:
        own = Watched(PySparkClient(spark), pravega, fresh_name)
        try:
            own.sql.run(
                f"MERGE INTO {own.name}.t USING (SELECT 1 AS id, 'no' AS b UNION ALL SELECT 3, 'new') s "
                f"ON {own.name}.t.id = s.id WHEN NOT MATCHED THEN INSERT *"
            )
            assert own.sql.run(f"SELECT * FROM {own.name}.t ORDER BY id") == [("1", "x"), ("2", "y"), ("3", "new")]
        finally:
            own.close()


def test_an_alias_that_is_called_changes(spark: SparkSession, watched: Watched) -> None:
    """One that is written with AS, is used, or comes from a DataFrame is meant as an alias."""
    table = f"{watched.name}.t"
    both = [("1", "x"), ("2", "y")]
    assert watched.sql.run(f"SELECT * FROM {table} AS changes ORDER BY id") == both
    assert watched.sql.run(f"SELECT changes.id, b FROM {table} changes ORDER BY changes.id") == both
    assert watched.sql.run(f"SELECT CHANGES.* FROM {table} CHANGES ORDER BY id") == both
    assert watched.sql.run(f"SELECT * FROM {table} AS `changes` ORDER BY id") == both
    assert watched.sql.run("SELECT * FROM VALUES (1, 'x') changes") == both[:1]
    assert sorted(spark.table(table).alias("changes").collect()) == [(1, "x"), (2, "y")]
    assert watched.sql.run(f"SELECT id FROM {table} CHANGES FROM VERSION 1 ORDER BY id") == [("1",), ("2",)]


def test_a_column_of_a_table_that_is_called_history(watched: Watched, fresh_name: str) -> None:
    """DESCRIBE HISTORY of what is no table here is Spark's DESCRIBE of a column."""
    watched.look()
    watched.sql.run(f"USE {watched.name}")
    watched.sql.run("CREATE TABLE history (id INT COMMENT 'its number') USING pravega")
    try:
        assert ("comment", "its number") in watched.sql.run("DESCRIBE history id")
        watched.sql.run("CREATE TABLE id (a INT) USING pravega")
        assert ("comment", "its number") in watched.sql.run("DESCRIBE TABLE history id")
        with pytest.raises(SqlError) as caught:
            watched.sql.run("DESCRIBE history id")
        check_message(str(caught.value), OPERATION, "DESCRIBE HISTORY")
    finally:
        watched.sql.run("DROP TABLE IF EXISTS id")
        watched.sql.run("DROP TABLE history")
        watched.sql.run("USE spark_catalog.default")
        watched.settle()


def test_statements_of_others_on_tables_of_others(watched: Watched) -> None:
    """Spark's own words stay for tables of other catalogs."""
    for statement in ("VACUUM t", "OPTIMIZE spark_catalog.default.t", "VACUUM nothing.s.t RETAIN 1 HOURS", "VACUUM"):
        with pytest.raises(SqlError) as caught:
            watched.sql.run(statement)
        check_message(str(caught.value), "PARSE_SYNTAX_ERROR", statement.split()[0])
    with pytest.raises(SqlError) as caught:
        watched.sql.run("DESCRIBE HISTORY nothing")
    check_message(str(caught.value), "TABLE_OR_VIEW_NOT_FOUND", "`HISTORY`")


def test_a_null_in_a_column_that_is_not_null(watched: Watched, fresh_name: str) -> None:
    watched.look()
    table = f"{watched.name}.`{fresh_name}`"
    watched.sql.run(f"CREATE TABLE {table} (id INT, n INT NOT NULL) USING pravega TBLPROPERTIES ('format'='json')")
    watched.settle()
    try:
        for rows in (
            "VALUES (1, NULL)",
            "SELECT id, IF(id = 3, NULL, id) FROM (SELECT CAST(id AS INT) id FROM range(5))",
        ):
            watched.refuse(Refusal(f"INSERT INTO {table} {rows}", "NOT_NULL_ASSERT_VIOLATION", ("n",)))
        with pytest.raises(SqlError) as caught:
            watched.sql.run(f"INSERT INTO {table} (id) VALUES (1)")
        check_message(str(caught.value), "INCOMPATIBLE_DATA_FOR_TABLE", "`n`")
        watched.look()
    finally:
        watched.sql.run(f"DROP TABLE {table}")
        watched.settle()
