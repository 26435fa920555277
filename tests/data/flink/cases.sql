-- == a catalog
CREATE CATALOG pravega_catalog WITH ('type' = 'pravega', 'default-database' = 'iot', 'controller-uri' = 'tcp://localhost:9090', 'schema-registry-uri' = 'http://localhost:9092');
-- ->
SET spark.sql.catalog.pravega_catalog = io.github.pysparkpravega.PravegaCatalog;
SET `spark.sql.catalog.pravega_catalog.scope` = iot;
SET `spark.sql.catalog.pravega_catalog.schema-registry-uri` = http://localhost:9092;
SET `spark.sql.catalog.pravega_catalog.controller-uri` = tcp://localhost:9090;

-- == a catalog with a login (not run)
CREATE CATALOG pc WITH ('type' = 'pravega', 'default-database' = 'iot', 'controller-uri' = 'tls://localhost:9090', 'schema-registry-uri' = 'https://localhost:9092', 'security.auth-type' = 'Basic', 'security.auth-token' = 'YWRtaW46MTExMQ==', 'security.trust-store' = '/certs/ca.pem', 'security.validate-hostname' = 'false', 'serialization.format' = 'Json');
-- ->
-- note: The login is not copied: set pravega_client_auth_method and pravega_client_auth_token in the environment of `pyspark-pravega run`.
SET spark.sql.catalog.pc = io.github.pysparkpravega.PravegaCatalog;
SET `spark.sql.catalog.pc.scope` = iot;
SET `spark.sql.catalog.pc.schema-registry-uri` = https://localhost:9092;
SET `spark.sql.catalog.pc.controller-uri` = tls://localhost:9090;
SET `spark.sql.catalog.pc.security.trust-store` = /certs/ca.pem;
SET `spark.sql.catalog.pc.security.validate-hostname` = false;

-- == a catalog of another kind
CREATE CATALOG hive WITH ('type' = 'hive', 'hive-conf-dir' = '/opt/hive');
-- ->
-- NOT TRANSLATED: The catalog hive is of type 'hive'; Spark has its own catalogs for other stores.
-- CREATE CATALOG hive WITH ('type' = 'hive', 'hive-conf-dir' = '/opt/hive')

-- == catalog statements
CREATE CATALOG c2 WITH ('type' = 'pravega', 'default-database' = 'iot', 'controller-uri' = 'tcp://localhost:9090', 'schema-registry-uri' = 'http://localhost:9092');
USE CATALOG c2;
SHOW CATALOGS;
SHOW DATABASES;
SHOW CURRENT CATALOG;
SHOW CURRENT DATABASE;
CREATE DATABASE IF NOT EXISTS iot;
CREATE TABLE mytable (name STRING, age INT) WITH ('sink.semantic' = 'exactly-once');
SHOW TABLES;
SHOW TABLES LIKE 'my%';
DESCRIBE mytable;
SHOW CREATE TABLE mytable;
SET 'execution.runtime-mode' = 'batch';
INSERT INTO mytable VALUES ('Tom', 30);
SELECT * FROM c2.iot.mytable;
SELECT COUNT(DISTINCT name) FROM mytable;
DROP TABLE mytable;
USE iot;
USE CATALOG default_catalog;
SET 'execution.runtime-mode' = 'streaming';
-- ->
SET spark.sql.catalog.c2 = io.github.pysparkpravega.PravegaCatalog;
SET `spark.sql.catalog.c2.scope` = iot;
SET `spark.sql.catalog.c2.schema-registry-uri` = http://localhost:9092;
SET `spark.sql.catalog.c2.controller-uri` = tcp://localhost:9090;

USE c2;

SHOW CATALOGS;

SHOW NAMESPACES IN c2;

SELECT current_catalog();

SELECT current_database();

CREATE NAMESPACE IF NOT EXISTS c2.iot;

CREATE TABLE IF NOT EXISTS c2.iot.mytable (
  name STRING,
  age INT
) USING pravega TBLPROPERTIES ('format'='avro');

SHOW TABLES IN c2.iot;

SHOW TABLES IN c2.iot LIKE 'my*';

DESCRIBE c2.iot.mytable;

SHOW CREATE TABLE c2.iot.mytable;

-- note: Tables are read from here on.
-- SET 'execution.runtime-mode' = 'batch'

INSERT INTO c2.iot.mytable
VALUES
  ('Tom', 30);

SELECT
  *
FROM c2.iot.mytable AS mytable;

SELECT
  COUNT(DISTINCT name)
FROM c2.iot.mytable AS mytable;

DROP TABLE c2.iot.mytable;

USE c2.iot;

-- note: The tables of default_catalog are named in full.
-- USE CATALOG default_catalog

-- note: Streams are read from here on.
-- SET 'execution.runtime-mode' = 'streaming'

-- == drop a database (not run)
CREATE CATALOG c3 WITH ('type' = 'pravega', 'default-database' = 'iot', 'controller-uri' = 'tcp://localhost:9090', 'schema-registry-uri' = 'http://localhost:9092');
DROP DATABASE IF EXISTS c3.scope2 CASCADE;
-- ->
SET spark.sql.catalog.c3 = io.github.pysparkpravega.PravegaCatalog;
SET `spark.sql.catalog.c3.scope` = iot;
SET `spark.sql.catalog.c3.schema-registry-uri` = http://localhost:9092;
SET `spark.sql.catalog.c3.controller-uri` = tcp://localhost:9090;

DROP NAMESPACE IF EXISTS c3.scope2 CASCADE;

-- == the table of the documents
CREATE TABLE user_behavior (
    user_id STRING,
    item_id BIGINT,
    category_id BIGINT,
    behavior STRING,
    log_ts TIMESTAMP(3), -- when it was logged
    ts as log_ts + INTERVAL '1' SECOND,
    watermark for ts as ts
    )
WITH (
    'connector' = 'pravega',
    'controller-uri' = 'tcp://localhost:9090',
    'scope' = 'iot',
    'scan.execution.type' = 'streaming',
    'scan.streams' = 'behavior',
    'sink.stream' = 'behavior',
    'sink.routing-key.field.name' = 'user_id',
    'format' = 'json'
    );
INSERT INTO user_behavior VALUES ('u1', CAST(1 AS BIGINT), CAST(2 AS BIGINT), 'pv', TIMESTAMP '2017-11-26 01:00:00');
SELECT user_behavior.user_id, ts FROM user_behavior;
-- ->
-- when it was logged
CREATE TABLE IF NOT EXISTS pravega.iot.behavior (
  user_id STRING,
  item_id BIGINT,
  category_id BIGINT,
  behavior STRING,
  log_ts TIMESTAMP_NTZ
) USING pravega TBLPROPERTIES ('format'='json', 'routing-key'='user_id', 'framing'='none', 'routing-key.of-all-events'='false');

-- CHECK: Timestamps are written as 2024-01-31T12:00:00.000000; Flink's json.timestamp-format.standard was SQL, so other Flink jobs that read the stream need ISO-8601.
INSERT INTO pravega.iot.behavior
VALUES
  (
    'u1',
    CAST(1 AS BIGINT),
    CAST(2 AS BIGINT),
    'pv',
    CAST('2017-11-26 01:00:00' AS TIMESTAMP_NTZ)
  );

-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  user_behavior.user_id,
  ts
FROM (SELECT user_id, item_id, category_id, behavior, log_ts, log_ts + INTERVAL '1' SECOND AS ts FROM pravega.iot.behavior) AS user_behavior;

-- == computed columns, time, metadata
CREATE TABLE orders (
  `computed-price` AS price + 1.0,
  price DECIMAL(38, 18),
  currency STRING COMMENT 'three letters, it''s ISO',
  log_date DATE NOT NULL,
  log_time TIME(3),
  log_ts TIMESTAMP_LTZ(3),
  event_pointer BYTES METADATA VIRTUAL,
  PRIMARY KEY (currency) NOT ENFORCED
) COMMENT 'the orders' WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'scan.streams' = 'orders', 'format' = 'json', 'json.fail-on-missing-field' = 'false', 'json.ignore-parse-errors' = 'true');
SELECT * FROM orders;
-- ->
-- CHECK: log_time: tables cannot store TIME; it is a STRING such as '10:15:00' here.
-- CHECK: 'json.ignore-parse-errors': Flink reads a malformed field as NULL; here the whole event is left out, and is counted.
-- CHECK: event_pointer is the event pointer as text in the form of Java's client, not as bytes.
-- note: PRIMARY KEY ... NOT ENFORCED is left out: it does not affect events.
CREATE TABLE IF NOT EXISTS pravega.iot.orders (
  price DECIMAL(38, 18),
  currency STRING COMMENT 'three letters, it\'s ISO',
  log_date DATE NOT NULL,
  log_time STRING,
  log_ts TIMESTAMP
) USING pravega COMMENT 'the orders' TBLPROPERTIES ('format'='json', 'framing'='none');

-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  *
FROM (SELECT price + 1.0 AS `computed-price`, price, currency, log_date, log_time, log_ts, _event_pointer AS event_pointer FROM pravega.iot.orders WITH ('mode'='dropmalformed')) AS orders;

-- == all types
CREATE TABLE types (a TINYINT, b SMALLINT, c INTEGER, d BIGINT, e FLOAT, f DOUBLE PRECISION, g DEC(5, 2), h NUMERIC(7), i CHAR(3), j VARCHAR(20), k VARCHAR, l BINARY(3), m VARBINARY(4), n BYTES, o BOOLEAN, p TIMESTAMP(6) WITHOUT TIME ZONE, q TIMESTAMP(3) WITH LOCAL TIME ZONE, r ROW<x INT, y ROW<z STRING>>, s MAP<STRING, ARRAY<INT NOT NULL>>, t ROW(v INT NOT NULL, w STRING 'text')) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'scan.streams' = 'types', 'sink.stream' = 'types', 'format' = 'json');
-- ->
-- note: s: comments and NOT NULL inside MAP are left out.
-- note: t: comments and NOT NULL inside ROW are left out.
CREATE TABLE IF NOT EXISTS pravega.iot.types (
  a TINYINT,
  b SMALLINT,
  c INT,
  d BIGINT,
  e FLOAT,
  f DOUBLE,
  g DECIMAL(5, 2),
  h DECIMAL(7),
  i CHAR(3),
  j VARCHAR(20),
  k STRING,
  l BINARY,
  m BINARY,
  n BINARY,
  o BOOLEAN,
  p TIMESTAMP_NTZ,
  q TIMESTAMP,
  r STRUCT<x: INT, y: STRUCT<z: STRING>>,
  s MAP<STRING, ARRAY<INT>>,
  t STRUCT<v: INT, w: STRING>
) USING pravega TBLPROPERTIES ('format'='json', 'framing'='none');

-- == nanoseconds
CREATE TABLE nanos (ts TIMESTAMP(9)) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'nanos', 'format' = 'avro');
-- ->
-- CHECK: ts: Spark's timestamps have microseconds; Flink's had 9 digits.
CREATE TABLE IF NOT EXISTS pravega.iot.nanos (
  ts TIMESTAMP_NTZ
) USING pravega TBLPROPERTIES ('format'='avro', 'framing'='none');

-- == a multiset
CREATE TABLE bags (b MULTISET<STRING>) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'bags', 'format' = 'json');
SELECT * FROM bags;
-- ->
-- NOT TRANSLATED: Column b: Spark has no type MULTISET; use MAP<element, INT>.
-- CREATE TABLE bags (b MULTISET<STRING>) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'bags', 'format' = 'json')

-- NOT TRANSLATED: It uses bags, which was not translated: Column b: Spark has no type MULTISET; use MAP<element, INT>.
-- SELECT * FROM bags

-- == columns that differ in case
CREATE TABLE cases (a INT, A INT) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'cases', 'format' = 'json');
-- ->
-- NOT TRANSLATED: The columns a and A differ only in case; Spark takes them for the same column.
-- CREATE TABLE cases (a INT, A INT) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'cases', 'format' = 'json')

-- == csv
CREATE TABLE csv_orders (id INT, name STRING) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'scan.streams' = 'csv', 'sink.stream' = 'csv', 'format' = 'csv', 'csv.field-delimiter' = ';', 'csv.null-literal' = 'n/a', 'csv.ignore-parse-errors' = 'true', 'csv.allow-comments' = 'true', 'csv.quote-character' = '''');
INSERT INTO csv_orders VALUES (1, 'x;y');
SELECT * FROM csv_orders;
-- ->
-- CHECK: 'csv.allow-comments' = 'true' has no equivalent, and was left out.
CREATE TABLE IF NOT EXISTS pravega.iot.csv (
  id INT,
  name STRING
) USING pravega TBLPROPERTIES ('format'='csv', 'csv.delimiter'=';', 'csv.null-value'='n/a', 'csv.quote'='\'');

INSERT INTO pravega.iot.csv
VALUES
  (1, 'x;y');

-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  *
FROM pravega.iot.csv WITH ('mode'='dropmalformed') AS csv_orders;

-- == timestamps of csv
CREATE TABLE csv_times (id INT, `at` TIMESTAMP(3)) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'scan.streams' = 'csv-times', 'sink.stream' = 'csv-times', 'format' = 'csv');
INSERT INTO csv_times VALUES (1, TIMESTAMP '2024-01-31 12:00:00.123');
-- ->
CREATE TABLE IF NOT EXISTS pravega.iot.`csv-times` (
  id INT,
  at TIMESTAMP_NTZ
) USING pravega TBLPROPERTIES ('format'='csv');

-- CHECK: Timestamps are written as 2024-01-31T12:00:00.000000; Flink's csv cannot read them.
INSERT INTO pravega.iot.`csv-times`
VALUES
  (1, CAST('2024-01-31 12:00:00.123' AS TIMESTAMP_NTZ));

-- == raw text
CREATE TABLE lines (log STRING) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'scan.streams' = 'lines', 'sink.stream' = 'lines', 'format' = 'raw', 'raw.charset' = 'UTF-8');
INSERT INTO lines VALUES ('127.0.0.1 GET /');
SELECT SPLIT_INDEX(log, ' ', 1) AS verb FROM lines;
-- ->
CREATE TABLE IF NOT EXISTS pravega.iot.lines (
  value STRING
) USING pravega TBLPROPERTIES ('format'='text');

INSERT INTO pravega.iot.lines
VALUES
  ('127.0.0.1 GET /');

-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  get(split(log, '\\ '), 1) AS verb
FROM (SELECT value AS log FROM pravega.iot.lines) AS lines;

-- == raw bytes
CREATE TABLE images (image BYTES) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'scan.streams' = 'images', 'sink.stream' = 'images', 'format' = 'raw');
INSERT INTO images VALUES (X'ff00');
SELECT image FROM images;
-- ->
CREATE TABLE IF NOT EXISTS pravega.iot.images (
  event BINARY
) USING pravega TBLPROPERTIES ('format'='raw');

INSERT INTO pravega.iot.images
VALUES
  (X'ff00');

-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  image
FROM (SELECT event AS image FROM pravega.iot.images) AS images;

-- == raw numbers
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'numbers', 'format' = 'raw', 'raw.endianness' = 'little-endian');
-- ->
-- CHECK: 'raw.endianness' = 'little-endian' has no equivalent, and was left out.
-- NOT TRANSLATED: A table of format 'raw' has exactly one column here, of type BYTES or STRING.
-- CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'numbers', 'format' = 'raw', 'raw.endianness' = 'little-endian')

-- == the schema registry's format
CREATE TABLE registered (id INT, name STRING) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'scan.streams' = 'registered', 'sink.stream' = 'registered', 'format' = 'pravega-registry', 'pravega-registry.uri' = 'http://localhost:9092', 'pravega-registry.namespace' = 'iot', 'pravega-registry.group-id' = 'registered', 'pravega-registry.format' = 'Json');
-- ->
-- note: The catalog pravega is the one of `pyspark-pravega run --schema-registry-uri http://localhost:9092`.
CREATE TABLE IF NOT EXISTS pravega.iot.registered (
  id INT,
  name STRING
) USING pravega TBLPROPERTIES ('format'='json');

-- == timestamps of the schema registry's format
CREATE TABLE registered_times (id INT, `at` TIMESTAMP(3)) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'registered-times', 'sink.stream' = 'registered-times', 'format' = 'pravega-registry', 'controller-uri' = 'tcp://localhost:9090', 'pravega-registry.uri' = 'http://localhost:9092', 'pravega-registry.namespace' = 'iot', 'pravega-registry.group-id' = 'registered-times');
INSERT INTO registered_times VALUES (1, TIMESTAMP '2024-01-31 12:00:00.123');
SELECT * FROM registered_times;
-- ->
-- note: The catalog pravega is the one of `pyspark-pravega run --schema-registry-uri http://localhost:9092`.
CREATE TABLE IF NOT EXISTS pravega.iot.`registered-times` (
  id INT,
  at TIMESTAMP_NTZ
) USING pravega TBLPROPERTIES ('format'='avro', 'avro.timestamp'='millis');

INSERT INTO pravega.iot.`registered-times`
VALUES
  (1, CAST('2024-01-31 12:00:00.123' AS TIMESTAMP_NTZ));

-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  *
FROM pravega.iot.`registered-times` AS registered_times;

-- == the format of Confluent's registry (not run)
CREATE TABLE payments (id INT, at TIMESTAMP(3)) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'payments', 'format' = 'avro-confluent', 'avro-confluent.url' = 'https://user:secret@registry:8081', 'avro-confluent.basic-auth.user-info' = 'user:secret');
CREATE TABLE paid (id INT) WITH ('connector' = 'pravega', 'scope' = 'iot', 'sink.stream' = 'paid', 'format' = 'avro-confluent', 'avro-confluent.url' = 'https://registry:8081');
-- ->
-- note: Give the catalog the conf confluent.registry-uri=https://registry:8081 when `pyspark-pravega run` starts, and confluent.username and confluent.password if that registry asks for a login.
CREATE TABLE IF NOT EXISTS pravega.iot.payments (
  id INT,
  at TIMESTAMP_NTZ
) USING pravega TBLPROPERTIES ('format'='avro', 'framing'='confluent');

-- NOT TRANSLATED: A table of 'avro-confluent' is only read here, and this one has a 'sink.stream'.
-- CREATE TABLE paid (id INT) WITH ('connector' = 'pravega', 'scope' = 'iot', 'sink.stream' = 'paid', 'format' = 'avro-confluent', 'avro-confluent.url' = '***')

-- == a schema group of another name
CREATE TABLE foreign_group (id INT) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 's', 'format' = 'pravega-registry', 'pravega-registry.namespace' = 'iot', 'pravega-registry.group-id' = 'other');
-- ->
-- NOT TRANSLATED: The schema group 'iot/other' is not the one of the stream; a table uses the group of its own name.
-- CREATE TABLE foreign_group (id INT) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 's', 'format' = 'pravega-registry', 'pravega-registry.namespace' = 'iot', 'pravega-registry.group-id' = 'other')

-- == debezium
CREATE TABLE products (id INT NOT NULL, name STRING, weight DECIMAL(10, 3), PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'scan.streams' = 'products', 'format' = 'debezium-json', 'debezium-json.schema-include' = 'true', 'debezium-json.ignore-parse-errors' = 'true');
SELECT name, SUM(weight) FROM products GROUP BY name;
-- ->
-- note: 'debezium-json.schema-include' is left out: events with and without schemas are distinguished automatically.
-- CHECK: 'debezium-json.ignore-parse-errors': Flink reads a malformed field as NULL; here the whole event is left out, and is counted.
CREATE TABLE IF NOT EXISTS pravega.iot.products (
  id INT NOT NULL,
  name STRING,
  weight DECIMAL(10, 3)
) USING pravega TBLPROPERTIES ('format'='debezium-json', 'primary-key'='id');

-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  name,
  SUM(weight)
FROM pravega.iot.products WITH ('mode'='dropmalformed') AS products
GROUP BY
  name;

-- == a stream of changed rows
CREATE TABLE changed (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'changed', 'sink.routing-key.field.name' = 'id', 'format' = 'debezium-json');
INSERT INTO totals SELECT name, 1.0 FROM changed;
-- ->
CREATE TABLE IF NOT EXISTS pravega.iot.changed (
  id INT,
  name STRING
) USING pravega TBLPROPERTIES ('format'='debezium-json', 'routing-key'='id', 'primary-key'='id');

-- NOT TRANSLATED: changed is a table of changes, so its rows change: read FROM STREAM ... CHANGES FROM VERSION and the columns _change_type and _commit_version, or set 'execution.runtime-mode' to 'batch'.
-- INSERT INTO totals SELECT name, 1.0 FROM changed

-- == metadata of debezium
CREATE TABLE debezium_source (origin_ts TIMESTAMP(3) METADATA FROM 'from_format.ingestion-timestamp' VIRTUAL, id INT NOT NULL) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'ds', 'format' = 'debezium-json');
-- ->
-- NOT TRANSLATED: Column origin_ts: there is no metadata 'from_format.ingestion-timestamp' here; of tables of changes, `<stream>$changelog` has the columns source and ts.
-- CREATE TABLE debezium_source (origin_ts TIMESTAMP(3) METADATA FROM 'from_format.ingestion-timestamp' VIRTUAL, id INT NOT NULL) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'ds', 'format' = 'debezium-json')

-- == maxwell
CREATE TABLE maxwell (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'scan.streams' = 'maxwell', 'format' = 'maxwell-json');
-- ->
CREATE TABLE IF NOT EXISTS pravega.iot.maxwell (
  id INT,
  name STRING
) USING pravega TBLPROPERTIES ('format'='maxwell-json', 'primary-key'='id');

-- == canal
CREATE TABLE canal (id INT) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'canal', 'format' = 'canal-json');
-- ->
-- NOT TRANSLATED: The format 'canal-json' is not known here; a Canal event holds several rows.
-- CREATE TABLE canal (id INT) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'canal', 'format' = 'canal-json')

-- == several streams
CREATE TABLE both_halls (id INT, twice AS id * 2) COMMENT 'two halls' WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'scan.streams' = 'hall-1;hall-2', 'format' = 'avro');
SELECT * FROM both_halls;
DROP TABLE both_halls;
-- ->
CREATE TABLE IF NOT EXISTS pravega.iot.`hall-1` (
  id INT
) USING pravega COMMENT 'two halls' TBLPROPERTIES ('format'='avro', 'framing'='none');
CREATE TABLE IF NOT EXISTS pravega.iot.`hall-2` (
  id INT
) USING pravega COMMENT 'two halls' TBLPROPERTIES ('format'='avro', 'framing'='none');
CREATE TABLE IF NOT EXISTS pravega.iot.both_halls USING pravega COMMENT 'two halls' TBLPROPERTIES ('streams'='hall-1,hall-2');
ALTER TABLE pravega.iot.both_halls SET TBLPROPERTIES ('streams'='hall-1,hall-2');

-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  *
FROM (SELECT id, id * 2 AS twice FROM pravega.iot.both_halls) AS both_halls;

-- note: Flink forgets both_halls; here the table of its streams stays, as the streams do.
-- DROP TABLE both_halls

-- == several streams as a stream
CREATE TABLE hall_a (id INT) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'sink.stream' = 'hall-a', 'format' = 'csv');
CREATE TABLE hall_b (id INT) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'sink.stream' = 'hall-b', 'format' = 'csv');
CREATE TABLE halls (id INT) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'scan.streams' = 'hall-a;hall-b', 'format' = 'csv', 'csv.ignore-parse-errors' = 'true');
INSERT INTO hall_a VALUES (1);
INSERT INTO hall_b VALUES (2);
INSERT INTO totals SELECT 'halls', CAST(id AS DOUBLE) FROM halls;
-- ->
CREATE TABLE IF NOT EXISTS pravega.iot.`hall-a` (
  id INT
) USING pravega TBLPROPERTIES ('format'='csv');

CREATE TABLE IF NOT EXISTS pravega.iot.`hall-b` (
  id INT
) USING pravega TBLPROPERTIES ('format'='csv');

CREATE TABLE IF NOT EXISTS pravega.iot.`hall-a` (
  id INT
) USING pravega TBLPROPERTIES ('format'='csv');
CREATE TABLE IF NOT EXISTS pravega.iot.`hall-b` (
  id INT
) USING pravega TBLPROPERTIES ('format'='csv');
CREATE TABLE IF NOT EXISTS pravega.iot.halls USING pravega TBLPROPERTIES ('streams'='hall-a,hall-b');
ALTER TABLE pravega.iot.halls SET TBLPROPERTIES ('streams'='hall-a,hall-b');

INSERT INTO pravega.iot.`hall-a`
VALUES
  (1);

INSERT INTO pravega.iot.`hall-b`
VALUES
  (2);

INSERT INTO pravega.iot.totals
SELECT
  'halls',
  CAST(id AS DOUBLE)
FROM STREAM pravega.iot.halls WITH ('mode'='dropmalformed') AS halls;

-- == several streams, one of which has the name of the table
CREATE TABLE hall_3 (id INT) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'scan.streams' = 'hall-3;hall-4', 'format' = 'avro');
SELECT * FROM hall_3;
-- ->
CREATE TABLE IF NOT EXISTS pravega.iot.`hall-3` (
  id INT
) USING pravega TBLPROPERTIES ('format'='avro', 'framing'='none');
CREATE TABLE IF NOT EXISTS pravega.iot.`hall-4` (
  id INT
) USING pravega TBLPROPERTIES ('format'='avro', 'framing'='none');

-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  *
FROM (SELECT id FROM (SELECT id FROM pravega.iot.`hall-3` UNION ALL SELECT id FROM pravega.iot.`hall-4`)) AS hall_3;

-- == stream cuts (not run)
CREATE TABLE part (id INT) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'a;b', 'scan.start-streamcuts' = 'H4sIA;H4sIB', 'scan.end-streamcuts' = 'H4sIC;H4sID', 'format' = 'avro');
INSERT INTO totals SELECT 'x', CAST(id AS DOUBLE) FROM part;
-- ->
CREATE TABLE IF NOT EXISTS pravega.iot.a (
  id INT
) USING pravega TBLPROPERTIES ('format'='avro', 'framing'='none');
CREATE TABLE IF NOT EXISTS pravega.iot.b (
  id INT
) USING pravega TBLPROPERTIES ('format'='avro', 'framing'='none');

INSERT INTO pravega.iot.totals
SELECT
  'x',
  CAST(id AS DOUBLE)
FROM (SELECT id FROM (SELECT id FROM STREAM pravega.iot.a WITH ('start-stream-cut'='H4sIA', 'end-stream-cut'='H4sIC') UNION ALL SELECT id FROM STREAM pravega.iot.b WITH ('start-stream-cut'='H4sIB', 'end-stream-cut'='H4sID'))) AS part;

-- == the reader group
CREATE TABLE grouped (id INT) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'scan.streams' = 'grouped', 'scan.reader-group.name' = 'group1', 'scan.uid' = 'uid1', 'scan.reader-group.refresh.interval' = '5 s', 'scan.reader-group.max-outstanding-checkpoint-request' = '2', 'scan.event-read.timeout.interval' = '2 s', 'scan.reader-group.checkpoint-initiate-timeout.interval' = '7 s', 'format' = 'json');
-- ->
-- note: 'scan.reader-group.name' is left out: Spark keeps positions in the checkpoint, and needs no reader group.
-- note: 'scan.uid' is left out: the name of a streaming statement identifies its checkpoint, see 'pravega.stream.name'.
-- note: 'scan.reader-group.max-outstanding-checkpoint-request' is left out: Spark keeps positions in the checkpoint, and needs no reader group.
-- note: 'scan.reader-group.refresh.interval' is left out: Spark keeps positions in the checkpoint, and needs no reader group.
-- note: 'scan.reader-group.checkpoint-initiate-timeout.interval' is left out: Spark keeps positions in the checkpoint, and needs no reader group.
-- note: 'scan.event-read.timeout.interval' is left out: a micro-batch takes what is there, and does not wait for events.
CREATE TABLE IF NOT EXISTS pravega.iot.grouped (
  id INT
) USING pravega TBLPROPERTIES ('format'='json', 'framing'='none');

-- == the delay of a watermark in a sink
CREATE TABLE late (id STRING, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '90' SECOND) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'sink.stream' = 'late', 'sink.enable.watermark-propagation' = 'true', 'format' = 'csv');
INSERT INTO late VALUES ('a', TIMESTAMP '2020-01-01 00:00:00');
-- ->
CREATE TABLE IF NOT EXISTS pravega.iot.late (
  id STRING,
  at TIMESTAMP_NTZ
) USING pravega TBLPROPERTIES ('format'='csv', 'event-time'='at', 'event-time.delay'='90s');

-- CHECK: Timestamps are written as 2024-01-31T12:00:00.000000; Flink's csv cannot read them.
INSERT INTO pravega.iot.late
VALUES
  ('a', CAST('2020-01-01 00:00:00' AS TIMESTAMP_NTZ));

-- == the delay of a watermark that has no fixed length
CREATE TABLE monthly (id STRING, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '1' MONTH) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'sink.stream' = 'monthly', 'sink.enable.watermark-propagation' = 'true', 'format' = 'csv');
-- ->
-- CHECK: No times are noted: the watermark `at` - INTERVAL '1' MONTH has no delay in days, hours, minutes or seconds. Set the properties 'event-time' and 'event-time.delay'.
CREATE TABLE IF NOT EXISTS pravega.iot.monthly (
  id STRING,
  at TIMESTAMP_NTZ
) USING pravega TBLPROPERTIES ('format'='csv');

-- == options of the sink
CREATE TABLE sunk (id STRING, `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at`) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'sink.stream' = 'sunk', 'sink.semantic' = 'at-least-once', 'sink.txn-lease-renewal.interval' = '20 s', 'sink.enable.watermark-propagation' = 'true', 'sink.routing-key.field.name' = 'id', 'format' = 'avro');
INSERT INTO sunk VALUES ('a', TIMESTAMP '2020-01-01 00:00:00');
SELECT * FROM sunk;
-- ->
-- note: at is stored in milliseconds, as in Flink's Avro; queries see a timestamp.
CREATE TABLE IF NOT EXISTS pravega.iot.sunk (
  id STRING,
  at BIGINT
) USING pravega TBLPROPERTIES ('format'='avro', 'routing-key'='id', 'framing'='none', 'routing-key.of-all-events'='false', 'event-time'='at');

INSERT INTO pravega.iot.sunk WITH ('write-mode'='at-least-once', 'transaction.lease'='20000ms')
SELECT id, timestampdiff(MILLISECOND, TIMESTAMP_NTZ '1970-01-01 00:00:00', CAST(at AS TIMESTAMP_NTZ))
FROM (
VALUES
  ('a', CAST('2020-01-01 00:00:00' AS TIMESTAMP_NTZ))
) AS rows (id, at);

-- NOT TRANSLATED: The table sunk has no 'scan.streams', so it can only be written.
-- SELECT * FROM sunk

-- == a login and an unknown option (not run)
CREATE TABLE secret (id INT) WITH ('connector' = 'pravega', 'controller-uri' = 'tls://localhost:9090', 'security.auth-type' = 'Basic', 'security.auth-token' = 'c2VjcmV0', 'security.trust-store' = '/certs/ca.pem', 'scope' = 'iot', 'scan.streams' = 'secret', 'scan.parallelism' = '4', 'format' = 'json');
-- ->
-- note: The login (security.auth-type, security.auth-token) is not copied: set pravega_client_auth_method and pravega_client_auth_token in the environment of `pyspark-pravega run`.
-- CHECK: The option 'scan.parallelism' is not known, and was left out.
SET spark.sql.catalog.pravega_2 = io.github.pysparkpravega.PravegaCatalog;
SET `spark.sql.catalog.pravega_2.controller-uri` = tls://localhost:9090;
SET `spark.sql.catalog.pravega_2.security.trust-store` = /certs/ca.pem;
CREATE TABLE IF NOT EXISTS pravega_2.iot.secret (
  id INT
) USING pravega TBLPROPERTIES ('format'='json', 'framing'='none');

-- == another controller (not run)
CREATE TABLE far (id INT) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://far:9090', 'scope' = 'iot', 'scan.streams' = 'far', 'format' = 'json');
-- ->
SET spark.sql.catalog.pravega_2 = io.github.pysparkpravega.PravegaCatalog;
SET `spark.sql.catalog.pravega_2.controller-uri` = tcp://far:9090;
CREATE TABLE IF NOT EXISTS pravega_2.iot.far (
  id INT
) USING pravega TBLPROPERTIES ('format'='json', 'framing'='none');

-- == another connector
CREATE TABLE printed (item STRING) WITH ('connector' = 'print');
INSERT INTO printed SELECT item FROM bid;
-- ->
-- NOT TRANSLATED: The connector 'print' is not translated: declare the table in Spark, with USING and OPTIONS.
-- CREATE TABLE printed (item STRING) WITH ('connector' = 'print')

-- NOT TRANSLATED: It uses printed, which was not translated: The connector 'print' is not translated: declare the table in Spark, with USING and OPTIONS.
-- INSERT INTO printed SELECT item FROM bid

-- == LIKE
CREATE TABLE bid_json WITH ('format' = 'json', 'scan.streams' = 'bid-json', 'sink.stream' = 'bid-json', 'scan.execution.type' = 'batch') LIKE bid;
SELECT item FROM bid_json;
-- ->
-- note: 'json.timestamp-format.standard' is left out: both standards are read.
CREATE TABLE IF NOT EXISTS pravega.iot.`bid-json` (
  item STRING,
  price DECIMAL(10, 2),
  n INT,
  bidtime TIMESTAMP_NTZ,
  tags ARRAY<STRING>,
  m MAP<STRING, INT>
) USING pravega TBLPROPERTIES ('format'='json', 'framing'='none');

SELECT
  item
FROM pravega.iot.`bid-json` AS bid_json;

-- == a temporary table that is there
CREATE TEMPORARY TABLE IF NOT EXISTS bid (x INT) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'bid', 'format' = 'json');
-- ->
-- note: bid is already declared.
-- CHECK: Flink hides bid behind this one, if the declared one is not temporary: rename it.
-- CREATE TEMPORARY TABLE IF NOT EXISTS bid (x INT) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'bid', 'format' = 'json')

-- == a watermark that is no delay
CREATE TABLE marked (a TIMESTAMP(3), b TIMESTAMP(3), WATERMARK FOR a AS b) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'marked', 'format' = 'json');
-- ->
-- NOT TRANSLATED: The watermark is b; Spark's watermark is a column and a delay: a, or a - INTERVAL '5' SECOND.
-- CREATE TABLE marked (a TIMESTAMP(3), b TIMESTAMP(3), WATERMARK FOR a AS b) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'marked', 'format' = 'json')

-- == time of processing
CREATE TABLE processed (id INT, proc AS PROCTIME()) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'scan.streams' = 'processed', 'scan.execution.type' = 'batch', 'format' = 'avro');
SELECT id FROM processed;
-- ->
CREATE TABLE IF NOT EXISTS pravega.iot.processed (
  id INT
) USING pravega TBLPROPERTIES ('format'='avro', 'framing'='none');

-- CHECK: PROCTIME() became current_timestamp(), the time at which a micro-batch began.
SELECT
  id
FROM (SELECT id, current_timestamp() AS proc FROM pravega.iot.processed) AS processed;

-- == drop a declared table
CREATE TABLE gone (id INT) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'scan.streams' = 'gone', 'format' = 'json');
DROP TABLE gone;
-- ->
CREATE TABLE IF NOT EXISTS pravega.iot.gone (
  id INT
) USING pravega TBLPROPERTIES ('format'='json', 'framing'='none');

-- note: Flink forgets gone and keeps its stream; DROP TABLE would delete the stream here, so it is left out.
-- DROP TABLE gone

-- == views
CREATE VIEW expensive (item, price) COMMENT 'dear' AS SELECT item, price FROM bid WHERE price > 3;
INSERT INTO totals SELECT item, CAST(price AS DOUBLE) FROM expensive AS e;
SELECT * FROM expensive;
SHOW VIEWS;
DROP VIEW expensive;
-- ->
CREATE TEMPORARY VIEW expensive (item, price) COMMENT 'dear' AS
SELECT
  item,
  price
FROM (SELECT item, price, n, CAST(bidtime AS TIMESTAMP) AS bidtime, tags, m FROM STREAM pravega.iot.bid) WATERMARK bidtime DELAY OF INTERVAL '5' SECOND AS bid
WHERE
  price > 3;

INSERT INTO pravega.iot.totals
SELECT
  item,
  CAST(price AS DOUBLE)
FROM expensive AS e;

-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  *
FROM (
  SELECT
    item,
    price
  FROM pravega.iot.bid AS bid
  WHERE
    price > 3
) AS expensive(item, price);

SHOW VIEWS IN spark_catalog.default;

DROP VIEW expensive;

-- == a projection as a stream
-- Only dear ones.
INSERT INTO totals /*+ OPTIONS('sink.semantic' = 'best-effort') */ SELECT item, price * 2 FROM bid WHERE n > 6 /* seven */;
-- ->
-- Only dear ones.
INSERT INTO pravega.iot.totals WITH ('write-mode'='best-effort')
SELECT
  item,
  price * 2
FROM (SELECT item, price, n, CAST(bidtime AS TIMESTAMP) AS bidtime, tags, m FROM STREAM pravega.iot.bid) WATERMARK bidtime DELAY OF INTERVAL '5' SECOND AS bid
WHERE
  n > 6 /* seven */;

-- == columns by name
INSERT INTO totals (total, item) SELECT 1.5, `item` FROM bid WHERE item = 'd';
-- ->
INSERT INTO pravega.iot.totals (total, item)
SELECT
  1.5,
  `item`
FROM (SELECT item, price, n, CAST(bidtime AS TIMESTAMP) AS bidtime, tags, m FROM STREAM pravega.iot.bid) WATERMARK bidtime DELAY OF INTERVAL '5' SECOND AS bid
WHERE
  item = 'd';

-- == a tumbling window
INSERT INTO per_window SELECT window_start, item, SUM(price) FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, item;
-- ->
-- note: Windows that end at or before 1970-01-01 00:00:00 UTC are left out: Spark's watermark begins there.
INSERT INTO pravega.iot.`per-window`
SELECT timestampdiff(MILLISECOND, TIMESTAMP_NTZ '1970-01-01 00:00:00', CAST(w AS TIMESTAMP_NTZ)), item, total
FROM (
SELECT
  window(bidtime, '10 MINUTES').start AS window_start,
  item,
  SUM(price)
FROM (SELECT item, price, n, CAST(bidtime AS TIMESTAMP) AS bidtime, tags, m FROM STREAM pravega.iot.bid) WATERMARK bidtime DELAY OF INTERVAL '5' SECOND AS bid
GROUP BY
  window(bidtime, '10 MINUTES'),
  item
) AS rows (w, item, total);

-- == a hopping window with names
INSERT INTO per_window SELECT window_end, 'hop', SUM(price) AS total FROM TABLE(HOP(DATA => TABLE bid, TIMECOL => DESCRIPTOR(bidtime), SLIDE => INTERVAL '5' MINUTES, SIZE => INTERVAL '10' MINUTES)) GROUP BY window_start, window_end HAVING SUM(price) > 1;
-- ->
-- note: Windows that end at or before 1970-01-01 00:00:00 UTC are left out: Spark's watermark begins there.
INSERT INTO pravega.iot.`per-window`
SELECT timestampdiff(MILLISECOND, TIMESTAMP_NTZ '1970-01-01 00:00:00', CAST(w AS TIMESTAMP_NTZ)), item, total
FROM (
SELECT
  window(bidtime, '10 MINUTES', '5 MINUTES').end AS window_end,
  'hop',
  SUM(price) AS total
FROM (SELECT item, price, n, CAST(bidtime AS TIMESTAMP) AS bidtime, tags, m FROM STREAM pravega.iot.bid) WATERMARK bidtime DELAY OF INTERVAL '5' SECOND AS bid
GROUP BY
  window(bidtime, '10 MINUTES', '5 MINUTES')
HAVING
  SUM(price) > 1
) AS rows (w, item, total);

-- == a session window
INSERT INTO per_window SELECT window_start, item, SUM(price) FROM TABLE(SESSION(TABLE bid PARTITION BY item, DESCRIPTOR(bidtime), INTERVAL '5' MINUTES)) GROUP BY item, window_start, window_end;
-- ->
-- note: Windows that end at or before 1970-01-01 00:00:00 UTC are left out: Spark's watermark begins there.
INSERT INTO pravega.iot.`per-window`
SELECT timestampdiff(MILLISECOND, TIMESTAMP_NTZ '1970-01-01 00:00:00', CAST(w AS TIMESTAMP_NTZ)), item, total
FROM (
SELECT
  session_window(bidtime, '5 MINUTES').start AS window_start,
  item,
  SUM(price)
FROM (SELECT item, price, n, CAST(bidtime AS TIMESTAMP) AS bidtime, tags, m FROM STREAM pravega.iot.bid) WATERMARK bidtime DELAY OF INTERVAL '5' SECOND AS bid
GROUP BY
  item,
  session_window(bidtime, '5 MINUTES')
) AS rows (w, item, total);

-- == a session by other keys
SELECT window_start, SUM(price) FROM TABLE(SESSION(TABLE bid PARTITION BY item, DESCRIPTOR(bidtime), INTERVAL '5' MINUTES)) GROUP BY window_start, window_end;
-- ->
-- NOT TRANSLATED: The session is partitioned by item, but the SELECT does not group by it.
-- SELECT window_start, SUM(price) FROM TABLE(SESSION(TABLE bid PARTITION BY item, DESCRIPTOR(bidtime), INTERVAL '5' MINUTES)) GROUP BY window_start, window_end

-- == a cumulating window
SELECT window_start, SUM(price) FROM TABLE(CUMULATE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES)) GROUP BY window_start, window_end;
-- ->
-- NOT TRANSLATED: CUMULATE has no equivalent: Spark has tumbling, hopping and session windows.
-- SELECT window_start, SUM(price) FROM TABLE(CUMULATE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES)) GROUP BY window_start, window_end

-- == rows of windows
SET 'execution.runtime-mode' = 'batch';
SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES, INTERVAL '2' MINUTES)) AS w WHERE w.n > 2;
SET 'execution.runtime-mode' = 'streaming';
-- ->
-- note: Tables are read from here on.
-- SET 'execution.runtime-mode' = 'batch'

SELECT
  *
FROM (
  SELECT
    *
    EXCEPT (window),
    window.start AS window_start,
    window.end AS window_end,
    window.end - INTERVAL '0.001' SECOND AS window_time
  FROM (
    SELECT
      *,
      window(bidtime, '10 MINUTES', '10 MINUTES', '2 MINUTES') AS window
    FROM pravega.iot.bid AS bid
  ) AS rows
) AS w
WHERE
  w.n > 2;

-- note: Streams are read from here on.
-- SET 'execution.runtime-mode' = 'streaming'

-- == windows with grouping sets
SET 'execution.runtime-mode' = 'batch';
SELECT window_start, window_end, item, SUM(price) AS price FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end, GROUPING SETS ((item), ());
SET 'execution.runtime-mode' = 'streaming';
-- ->
-- note: Tables are read from here on.
-- SET 'execution.runtime-mode' = 'batch'

SELECT
  window(bidtime, '10 MINUTES').start AS window_start,
  window(bidtime, '10 MINUTES').end AS window_end,
  item,
  SUM(price) AS price
FROM pravega.iot.bid AS bid
GROUP BY
  window(bidtime, '10 MINUTES'),
  GROUPING SETS (
    (
      item
    ),
    ()
  );

-- note: Streams are read from here on.
-- SET 'execution.runtime-mode' = 'streaming'

-- == the greatest of each window
SET 'execution.runtime-mode' = 'batch';
SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS rownum FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES))) WHERE rownum <= 2;
SET 'execution.runtime-mode' = 'streaming';
-- ->
-- note: Tables are read from here on.
-- SET 'execution.runtime-mode' = 'batch'

SELECT
  *
FROM (
  SELECT
    *,
    ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS rownum
  FROM (
    SELECT
      *
      EXCEPT (window),
      window.start AS window_start,
      window.end AS window_end,
      window.end - INTERVAL '0.001' SECOND AS window_time
    FROM (
      SELECT
        *,
        window(bidtime, '10 MINUTES') AS window
      FROM pravega.iot.bid AS bid
    ) AS rows
  ) AS windows
)
WHERE
  rownum <= 2;

-- note: Streams are read from here on.
-- SET 'execution.runtime-mode' = 'streaming'

-- == OVER as a stream
INSERT INTO totals SELECT item, SUM(price) OVER (PARTITION BY item ORDER BY bidtime) FROM bid;
-- ->
-- NOT TRANSLATED: OVER of a stream has no equivalent in Spark: use time windows, or a stateful operator in Python.
-- INSERT INTO totals SELECT item, SUM(price) OVER (PARTITION BY item ORDER BY bidtime) FROM bid

-- == group windows
INSERT INTO per_window SELECT TUMBLE_START(bidtime, INTERVAL '1' HOUR), item, SUM(price) FROM bid GROUP BY TUMBLE(bidtime, INTERVAL '1' HOUR), item;
-- ->
-- note: Windows that end at or before 1970-01-01 00:00:00 UTC are left out: Spark's watermark begins there.
INSERT INTO pravega.iot.`per-window`
SELECT timestampdiff(MILLISECOND, TIMESTAMP_NTZ '1970-01-01 00:00:00', CAST(w AS TIMESTAMP_NTZ)), item, total
FROM (
SELECT
  window(bidtime, '1 HOUR').start,
  item,
  SUM(price)
FROM (SELECT item, price, n, CAST(bidtime AS TIMESTAMP) AS bidtime, tags, m FROM STREAM pravega.iot.bid) WATERMARK bidtime DELAY OF INTERVAL '5' SECOND AS bid
GROUP BY
  window(bidtime, '1 HOUR'),
  item
) AS rows (w, item, total);

-- == hops and sessions of groups
SELECT HOP_START(bidtime, INTERVAL '5' MINUTE, INTERVAL '1' HOUR), HOP_END(bidtime, INTERVAL '5' MINUTE, INTERVAL '1' HOUR), COUNT(*) FROM bid GROUP BY HOP(bidtime, INTERVAL '5' MINUTE, INTERVAL '1' HOUR);
SELECT item, SESSION_START(bidtime, INTERVAL '30' MINUTE) AS s, SESSION_ROWTIME(bidtime, INTERVAL '30' MINUTE) AS r FROM bid GROUP BY item, SESSION(bidtime, INTERVAL '30' MINUTE);
-- ->
-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  window(bidtime, '1 HOUR', '5 MINUTE').start,
  window(bidtime, '1 HOUR', '5 MINUTE').end,
  COUNT(*)
FROM pravega.iot.bid AS bid
GROUP BY
  window(bidtime, '1 HOUR', '5 MINUTE');

-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  item,
  session_window(bidtime, '30 MINUTE').start AS s,
  session_window(bidtime, '30 MINUTE').end - INTERVAL '0.001' SECOND AS r
FROM pravega.iot.bid AS bid
GROUP BY
  item,
  session_window(bidtime, '30 MINUTE');

-- == an aggregate without window (not run)
INSERT INTO totals SELECT item, SUM(n) FROM bid GROUP BY item;
-- ->
-- CHECK: Flink updates the results of a group without a window; a Pravega table takes only final results, and Spark refuses such a stream without a time window.
INSERT INTO pravega.iot.totals
SELECT
  item,
  SUM(n)
FROM (SELECT item, price, n, CAST(bidtime AS TIMESTAMP) AS bidtime, tags, m FROM STREAM pravega.iot.bid) WATERMARK bidtime DELAY OF INTERVAL '5' SECOND AS bid
GROUP BY
  item;

-- == an interval join
INSERT INTO totals SELECT o.item, CAST(s.price AS DOUBLE) FROM bid o, bid s WHERE o.item = s.item AND s.bidtime BETWEEN o.bidtime AND o.bidtime + INTERVAL '4' MINUTE;
-- ->
INSERT INTO pravega.iot.totals
SELECT
  o.item,
  CAST(s.price AS DOUBLE)
FROM (SELECT item, price, n, CAST(bidtime AS TIMESTAMP) AS bidtime, tags, m FROM STREAM pravega.iot.bid) WATERMARK bidtime DELAY OF INTERVAL '5' SECOND AS o, (SELECT item, price, n, CAST(bidtime AS TIMESTAMP) AS bidtime, tags, m FROM STREAM pravega.iot.bid) WATERMARK bidtime DELAY OF INTERVAL '5' SECOND AS s
WHERE
  o.item = s.item
  AND s.bidtime BETWEEN o.bidtime AND o.bidtime + INTERVAL '4' MINUTE;

-- == a temporal join
SELECT o.item, r.rate FROM bid AS o LEFT JOIN rates FOR SYSTEM_TIME AS OF o.bidtime AS r ON o.item = r.item;
-- ->
-- NOT TRANSLATED: FOR SYSTEM_TIME AS OF o.bidtime of rates: Spark joins a stream with the current state of a table, or with another stream within an interval.
-- SELECT o.item, r.rate FROM bid AS o LEFT JOIN rates FOR SYSTEM_TIME AS OF o.bidtime AS r ON o.item = r.item

-- == a join with a table at rest
INSERT INTO totals SELECT b.item, t.total FROM bid AS b JOIN totals /*+ OPTIONS('scan.execution.type' = 'batch') */ AS t ON b.item = t.item;
-- ->
INSERT INTO pravega.iot.totals
SELECT
  b.item,
  t.total
FROM (SELECT item, price, n, CAST(bidtime AS TIMESTAMP) AS bidtime, tags, m FROM STREAM pravega.iot.bid) WATERMARK bidtime DELAY OF INTERVAL '5' SECOND AS b
JOIN pravega.iot.totals AS t
  ON b.item = t.item;

-- == a join of batches
SET 'execution.runtime-mode' = 'batch';
SELECT b.item, t.total FROM bid b LEFT JOIN totals t ON b.item = t.item ORDER BY b.item LIMIT 3;
SET 'execution.runtime-mode' = 'streaming';
-- ->
-- note: Tables are read from here on.
-- SET 'execution.runtime-mode' = 'batch'

SELECT
  b.item,
  t.total
FROM pravega.iot.bid AS b
LEFT JOIN pravega.iot.totals AS t
  ON b.item = t.item
ORDER BY
  b.item
LIMIT 3;

-- note: Streams are read from here on.
-- SET 'execution.runtime-mode' = 'streaming'

-- == timestamps of Avro
CREATE TABLE measured (id INT, `at` TIMESTAMP(3), seen TIMESTAMP_LTZ(3), WATERMARK FOR `at` AS `at`) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'scan.streams' = 'measured', 'sink.stream' = 'measured', 'format' = 'avro');
INSERT INTO measured VALUES (1, TIMESTAMP '2020-01-01 10:00:00.123', TO_TIMESTAMP_LTZ(1577872800000, 3));
INSERT INTO per_window (item, w, total) SELECT 'measured', `at`, 1.5 FROM measured;
SELECT * FROM measured;
-- ->
-- note: at is stored in milliseconds, as in Flink's Avro; queries see a timestamp.
-- note: seen is stored in milliseconds, as in Flink's Avro; queries see a timestamp.
CREATE TABLE IF NOT EXISTS pravega.iot.measured (
  id INT,
  at BIGINT,
  seen BIGINT
) USING pravega TBLPROPERTIES ('format'='avro', 'framing'='none');

INSERT INTO pravega.iot.measured
SELECT id, timestampdiff(MILLISECOND, TIMESTAMP_NTZ '1970-01-01 00:00:00', CAST(at AS TIMESTAMP_NTZ)), unix_millis(CAST(seen AS TIMESTAMP))
FROM (
VALUES
  (
    1,
    CAST('2020-01-01 10:00:00.123' AS TIMESTAMP_NTZ),
    timestamp_millis(1577872800000)
  )
) AS rows (id, at, seen);

INSERT INTO pravega.iot.`per-window` (item, w, total)
SELECT item, timestampdiff(MILLISECOND, TIMESTAMP_NTZ '1970-01-01 00:00:00', CAST(w AS TIMESTAMP_NTZ)), total
FROM (
SELECT
  'measured',
  `at`,
  1.5
FROM (SELECT id, CAST(timestampadd(MILLISECOND, at, TIMESTAMP_NTZ '1970-01-01 00:00:00') AS TIMESTAMP) AS at, timestamp_millis(seen) AS seen FROM STREAM pravega.iot.measured) WATERMARK at DELAY OF INTERVAL '0' SECOND AS measured
) AS rows (item, w, total);

-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  *
FROM (SELECT id, timestampadd(MILLISECOND, at, TIMESTAMP_NTZ '1970-01-01 00:00:00') AS at, timestamp_millis(seen) AS seen FROM pravega.iot.measured) AS measured;

-- == times of Avro
CREATE TABLE timed (id INT, `at` TIME(3)) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'timed', 'format' = 'avro');
-- ->
-- CHECK: at: tables cannot store TIME; it is a STRING such as '10:15:00' here.
-- NOT TRANSLATED: Column at: Flink's Avro stores TIME as a number of milliseconds; declare INT.
-- CREATE TABLE timed (id INT, `at` TIME(3)) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'timed', 'format' = 'avro')

-- == elements of Avro
CREATE TABLE listed (ids ARRAY<INT NOT NULL>) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'listed', 'format' = 'avro');
-- ->
-- note: ids: comments and NOT NULL inside ARRAY are left out.
-- NOT TRANSLATED: Column ids: NOT NULL inside a type has no equivalent in Avro without a header.
-- CREATE TABLE listed (ids ARRAY<INT NOT NULL>) WITH ('connector' = 'pravega', 'scope' = 'iot', 'scan.streams' = 'listed', 'format' = 'avro')

-- == a union and a common table expression
INSERT INTO totals WITH dear AS (SELECT item, price FROM bid WHERE price > 5) SELECT item, CAST(price AS DOUBLE) FROM dear UNION ALL SELECT item, 0.5 FROM bid WHERE n = 2;
-- ->
INSERT INTO pravega.iot.totals
WITH dear AS (
  SELECT
    item,
    price
  FROM (SELECT item, price, n, CAST(bidtime AS TIMESTAMP) AS bidtime, tags, m FROM STREAM pravega.iot.bid) WATERMARK bidtime DELAY OF INTERVAL '5' SECOND AS bid
  WHERE
    price > 5
)
SELECT
  item,
  CAST(price AS DOUBLE)
FROM dear
UNION ALL
SELECT
  item,
  0.5
FROM (SELECT item, price, n, CAST(bidtime AS TIMESTAMP) AS bidtime, tags, m FROM STREAM pravega.iot.bid) WATERMARK bidtime DELAY OF INTERVAL '5' SECOND AS bid
WHERE
  n = 2;

-- == a statement set
EXECUTE STATEMENT SET
BEGIN
INSERT INTO totals SELECT item, 1 FROM bid WHERE n = 2;
INSERT INTO totals SELECT item, 2 FROM bid WHERE n = 3;
END;
-- ->
-- note: The INSERTs of a statement set run side by side here, each with its own checkpoint.
INSERT INTO pravega.iot.totals
SELECT
  item,
  1
FROM (SELECT item, price, n, CAST(bidtime AS TIMESTAMP) AS bidtime, tags, m FROM STREAM pravega.iot.bid) WATERMARK bidtime DELAY OF INTERVAL '5' SECOND AS bid
WHERE
  n = 2;

SET pravega.stream.name = 'pravega.iot.totals-2';
INSERT INTO pravega.iot.totals
SELECT
  item,
  2
FROM (SELECT item, price, n, CAST(bidtime AS TIMESTAMP) AS bidtime, tags, m FROM STREAM pravega.iot.bid) WATERMARK bidtime DELAY OF INTERVAL '5' SECOND AS bid
WHERE
  n = 3;
RESET pravega.stream.name;

-- note: The end of the statement set.
-- END

-- == an older statement set
BEGIN STATEMENT SET;
INSERT INTO per_window SELECT bidtime, item, price FROM bid WHERE n = 4;
END;
-- ->
-- note: The INSERTs of a statement set run side by side here, each with its own checkpoint.
-- BEGIN STATEMENT SET

INSERT INTO pravega.iot.`per-window`
SELECT timestampdiff(MILLISECOND, TIMESTAMP_NTZ '1970-01-01 00:00:00', CAST(w AS TIMESTAMP_NTZ)), item, total
FROM (
SELECT
  bidtime,
  item,
  price
FROM (SELECT item, price, n, CAST(bidtime AS TIMESTAMP) AS bidtime, tags, m FROM STREAM pravega.iot.bid) WATERMARK bidtime DELAY OF INTERVAL '5' SECOND AS bid
WHERE
  n = 4
) AS rows (w, item, total);

-- note: The end of the statement set.
-- END

-- == arrays, maps, rows
SELECT tags[1], m['k'], CARDINALITY(tags), ARRAY['a', 'b'][2], MAP['k', 1]['k'], ROW(1, 'a'), CAST(ROW(1, 'x') AS ROW<i INT, s STRING>).s FROM bid;
-- ->
-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  get(tags, 0),
  m['k'],
  CARDINALITY(tags),
  get(ARRAY('a', 'b'), 1),
  map('k', 1)['k'],
  struct(1, 'a'),
  CAST(struct(1, 'x') AS STRUCT<i: INT, s: STRING>).s
FROM pravega.iot.bid AS bid;

-- == an element by a column
SELECT tags[n - 6] FROM bid WHERE n = 7;
-- ->
-- CHECK: tags[n - 6]: elements of an array are counted from 0 here; keys of a map stay the same.
-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  tags[n - 6]
FROM pravega.iot.bid AS bid
WHERE
  n = 7;

-- == unnest
SELECT item, tag FROM bid CROSS JOIN UNNEST(tags) AS t (tag);
-- ->
-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  item,
  tag
FROM pravega.iot.bid AS bid
LATERAL VIEW
EXPLODE(tags) t AS tag;

-- == functions of text
SELECT UPPER(item), CHAR_LENGTH(item), item || '-' || item, SUBSTRING(item FROM 1 FOR 1), TRIM(BOTH ' ' FROM item), POSITION('a' IN item), REGEXP_EXTRACT('foo12', '([a-z]+)(\d+)', 2), SPLIT_INDEX('a|b|c', '|', 1), LISTAGG(item) OVER (PARTITION BY n), SHA256(item), FROM_BASE64(TO_BASE64(item)), CONCAT_WS(',', item, 'x') FROM bid;
-- ->
-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  UPPER(item),
  CHAR_LENGTH(item),
  item || '-' || item,
  SUBSTRING(item, 1, 1),
  TRIM(BOTH ' ' FROM item),
  LOCATE('a', item),
  nullif(regexp_extract('foo12', '([a-z]+)(\\d+)', 2), ''),
  get(split('a|b|c', '\\|'), 1),
  listagg(item, ',') OVER (PARTITION BY n),
  sha2(item, 256),
  CAST(unbase64(base64(item)) AS STRING),
  CONCAT_WS(',', item, 'x')
FROM pravega.iot.bid AS bid;

-- == functions of time
SELECT DATE_FORMAT(bidtime, 'yyyy-MM-dd HH:mm'), TO_TIMESTAMP('2020-01-01 10:00:00'), TO_TIMESTAMP_LTZ(1577872800000, 3), FLOOR(bidtime TO HOUR), TIMESTAMPDIFF(MINUTE, bidtime, bidtime + INTERVAL '1' DAY), TIMESTAMPADD(HOUR, 1, bidtime), EXTRACT(DAY FROM bidtime), YEAR(bidtime), DATE '2020-01-01' + INTERVAL '1' DAY, UNIX_TIMESTAMP('2020-01-01 00:00:00'), TO_DATE('2020-01-01') FROM bid;
-- ->
-- CHECK: UNIX_TIMESTAMP depends on the zone of the session: this script sets it to UTC for event time, but Flink used the machine's zone. Begin the script with SET 'table.local-time-zone' = 'UTC' if that zone was UTC.
-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  DATE_FORMAT(bidtime, 'yyyy-MM-dd HH:mm'),
  TRY_CAST('2020-01-01 10:00:00' AS TIMESTAMP_NTZ),
  timestamp_millis(1577872800000),
  CAST(date_trunc('HOUR', bidtime) AS TIMESTAMP_NTZ),
  TIMESTAMPDIFF(MINUTE, bidtime, bidtime + INTERVAL '1' DAY),
  TIMESTAMPADD(HOUR, 1, bidtime),
  EXTRACT(DAY FROM bidtime),
  YEAR(bidtime),
  CAST('2020-01-01' AS DATE) + INTERVAL '1' DAY,
  UNIX_TIMESTAMP('2020-01-01 00:00:00'),
  TRY_CAST('2020-01-01' AS DATE)
FROM pravega.iot.bid AS bid;

-- == a time of day (not run)
SELECT TIME '10:00:00', CAST('10:00:00' AS TIME(0)) FROM bid;
-- ->
-- CHECK: Spark has TIME only after SET spark.sql.timeType.enabled = true.
-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  CAST('10:00:00' AS TIME),
  CAST('10:00:00' AS TIME)
FROM pravega.iot.bid AS bid;

-- == the time now
SELECT CURRENT_TIMESTAMP, LOCALTIMESTAMP, CURRENT_DATE, NOW() FROM bid;
-- ->
-- CHECK: CURRENT_DATE depends on the zone of the session: this script sets it to UTC for event time, but Flink used the machine's zone. Begin the script with SET 'table.local-time-zone' = 'UTC' if that zone was UTC.
-- CHECK: LOCALTIMESTAMP depends on the zone of the session: this script sets it to UTC for event time, but Flink used the machine's zone. Begin the script with SET 'table.local-time-zone' = 'UTC' if that zone was UTC.
-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  CURRENT_TIMESTAMP(),
  localtimestamp(),
  CURRENT_DATE,
  NOW()
FROM pravega.iot.bid AS bid;

-- == cases, casts, nulls
SELECT CASE WHEN n > 3 THEN 'many' ELSE 'few' END, IF(n > 3, 1, 0), COALESCE(item, 'none'), NULLIF(n, 2), TRY_CAST(item AS INT), CAST(n AS STRING), CAST(bidtime AS TIMESTAMP_LTZ(3)), CAST(n AS DECIMAL(10, 2)), n IS NOT DISTINCT FROM 2, IFNULL(item, '') FROM bid;
-- ->
-- CHECK: A CAST from or to TIMESTAMP_LTZ depends on the zone of the session: this script sets it to UTC for event time, but Flink used the machine's zone. Begin the script with SET 'table.local-time-zone' = 'UTC' if that zone was UTC.
-- CHECK: CAST(item AS INT): Flink cuts off the fraction of a text such as '1.5', which is not a whole number here: CAST it to DECIMAL first.
-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  CASE WHEN n > 3 THEN 'many' ELSE 'few' END,
  IF(n > 3, 1, 0),
  COALESCE(item, 'none'),
  NULLIF(n, 2),
  TRY_CAST(item AS INT),
  CAST(n AS STRING),
  CAST(bidtime AS TIMESTAMP),
  CAST(n AS DECIMAL(10, 2)),
  n IS NOT DISTINCT FROM 2,
  IFNULL(item, '')
FROM pravega.iot.bid AS bid;

-- == divisions
SELECT n / 2, n / 2.0, CAST(n AS DOUBLE) / 2, MOD(n, 2), n % 2 FROM bid;
-- ->
-- CHECK: The quotient of whole numbers is a whole number in Flink, but a fraction in Spark: use DIV for whole numbers.
-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  n / 2,
  n / 2.0,
  CAST(n AS DOUBLE) / 2,
  MOD(n, 2),
  n % 2
FROM pravega.iot.bid AS bid;

-- == aggregates
SELECT COUNT(*), COUNT(DISTINCT item), SUM(n) FILTER (WHERE n > 2), AVG(price), STDDEV_POP(n), FIRST_VALUE(item), APPROX_COUNT_DISTINCT(item) FROM bid;
-- ->
-- CHECK: FIRST_VALUE is any value that is not NULL here, because rows have no order; use MIN_BY or MAX_BY.
-- CHECK: AVG of whole numbers is a whole number in Flink, but a fraction here: CAST it if its values are whole numbers.
-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  COUNT(*),
  COUNT(DISTINCT item),
  SUM(n) FILTER(WHERE
    n > 2),
  avg(price),
  STDDEV_POP(n),
  first_value(item, TRUE),
  APPROX_COUNT_DISTINCT(item)
FROM pravega.iot.bid AS bid;

-- == functions whose arguments differ
SELECT SPLIT(item, '.'), LTRIM(item, 'xy'), RTRIM(item, 'z'), RTRIM(item) FROM bid;
SELECT AVG(CAST(n AS DOUBLE)) FROM bid;
-- ->
-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  split(item, '\\.'),
  ltrim('xy', item),
  rtrim('z', item),
  rtrim(item)
FROM pravega.iot.bid AS bid;

-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  avg(CAST(n AS DOUBLE))
FROM pravega.iot.bid AS bid;

-- == functions that differ or are not known (not run)
SELECT GREATEST(1, n), JSON_VALUE('{"a": 1}', '$.a') FROM bid;
SELECT my_function(n) FROM bid;
-- ->
-- CHECK: JSON_VALUE became get_json_object, which also gives objects and arrays, as text.
-- CHECK: GREATEST ignores NULLs here; in Flink one NULL makes the result NULL.
-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  greatest(1, n),
  get_json_object('{"a": 1}', '$.a')
FROM pravega.iot.bid AS bid;

-- CHECK: The function my_function is not known here, and was kept.
-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  my_function(n)
FROM pravega.iot.bid AS bid;

-- == functions without equal
SELECT COLLECT(item) FROM bid;
-- ->
-- NOT TRANSLATED: COLLECT has no equivalent: Spark has no MULTISET; collect_list gives an array.
-- SELECT COLLECT(item) FROM bid

-- == strings
SELECT 'it''s', 'back\slash', U&'\00e9', X'ff', 'semi;colon -- no comment' FROM bid;
-- ->
-- CHECK: A SELECT of a stream would never end: here it shows what is there, and ends.
SELECT
  'it\'s',
  'back\\slash',
  '\u00e9',
  X'ff',
  'semi;colon -- no comment'
FROM pravega.iot.bid AS bid;

-- == values
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t (x, y);
-- ->
SELECT
  *
FROM VALUES
  (1, 'a'),
  (2, 'b') AS t(x, y);

-- == a batch insert
SET 'execution.runtime-mode' = 'batch';
INSERT INTO totals SELECT item, SUM(n) FROM bid GROUP BY item;
SET 'execution.runtime-mode' = 'streaming';
-- ->
-- note: Tables are read from here on.
-- SET 'execution.runtime-mode' = 'batch'

INSERT INTO pravega.iot.totals
SELECT
  item,
  SUM(n)
FROM pravega.iot.bid AS bid
GROUP BY
  item;

-- note: Streams are read from here on.
-- SET 'execution.runtime-mode' = 'streaming'

-- == an overwrite
INSERT OVERWRITE totals SELECT item, 1.0 FROM bid;
-- ->
-- NOT TRANSLATED: INSERT OVERWRITE: a stream only grows; use INSERT INTO, or a new table.
-- INSERT OVERWRITE totals SELECT item, 1.0 FROM bid

-- == patterns
SELECT * FROM bid MATCH_RECOGNIZE (PARTITION BY item ORDER BY bidtime MEASURES A.n AS n PATTERN (A) DEFINE A AS A.n > 1);
-- ->
-- NOT TRANSLATED: MATCH_RECOGNIZE has no equivalent: use a stateful operator of Spark in Python.
-- SELECT * FROM bid MATCH_RECOGNIZE (PARTITION BY item ORDER BY bidtime MEASURES A.n AS n PATTERN (A) DEFINE A AS A.n > 1)

-- == a table function
SELECT * FROM bid, LATERAL TABLE(split_words(item)) AS t (word);
-- ->
-- CHECK: The function split_words is not known here, and was kept.
-- NOT TRANSLATED: LATERAL TABLE has no equivalent: register the function in Spark, and use LATERAL with it.
-- SELECT * FROM bid, LATERAL TABLE(split_words(item)) AS t (word)

-- == what it reads, and plans
DESCRIBE bid;
DESC per_window;
EXPLAIN SELECT item FROM bid;
EXPLAIN PLAN FOR SELECT item FROM bid;
SHOW FUNCTIONS;
-- ->
DESCRIBE pravega.iot.bid;

DESCRIBE pravega.iot.`per-window`;

EXPLAIN SELECT
  item
FROM pravega.iot.bid AS bid;

EXPLAIN SELECT
  item
FROM pravega.iot.bid AS bid;

SHOW FUNCTIONS;

-- == settings
SET 'execution.checkpointing.interval' = '10 s';
SET execution.checkpointing.mode = EXACTLY_ONCE;
SET 'table.local-time-zone' = 'UTC';
SET 'parallelism.default' = '2';
SET 'pipeline.name' = 'job';
SET 'sql-client.execution.result-mode' = 'tableau';
SET 'table.exec.state.ttl' = '1 h';
RESET 'pipeline.name';
SET 'execution.checkpointing.interval' = '0 s';
-- ->
-- note: Rows become visible with each micro-batch, as they did in Flink with each checkpoint.
SET pravega.stream.trigger = '10000 ms';

-- note: 'execution.checkpointing.mode' is left out: it says how Flink works, not what the job means.
-- SET execution.checkpointing.mode = EXACTLY_ONCE

SET spark.sql.session.timeZone = UTC;

SET spark.sql.shuffle.partitions = 2;

-- note: A streaming statement has the name of its table: SET pravega.stream.name changes it.
-- SET 'pipeline.name' = 'job'

-- note: 'sql-client.execution.result-mode' is left out: it says how Flink works, not what the job means.
-- SET 'sql-client.execution.result-mode' = 'tableau'

-- CHECK: The setting 'table.exec.state.ttl' is not known, and was left out.
-- SET 'table.exec.state.ttl' = '1 h'

-- CHECK: RESET is left out: Spark settings are reset by RESET <key>.
-- RESET 'pipeline.name'

-- note: Rows become visible with each micro-batch, as they did in Flink with each checkpoint.
SET pravega.stream.trigger = '0 ms';

-- == statements without equal
ADD JAR '/lib/udf.jar';
CREATE FUNCTION f AS 'com.example.F';
ALTER TABLE bid SET ('format' = 'json');
DELETE FROM bid WHERE n = 1;
SHOW JOBS;
LOAD MODULE hive;
-- ->
-- NOT TRANSLATED: ADD JAR has no equivalent in a script.
-- ADD JAR '/lib/udf.jar'

-- NOT TRANSLATED: CREATE FUNCTION has no equivalent in a script.
-- CREATE FUNCTION f AS 'com.example.F'

-- NOT TRANSLATED: ALTER TABLE has no equivalent in a script.
-- ALTER TABLE bid SET ('format' = 'json')

-- NOT TRANSLATED: DELETE FROM has no equivalent in a script.
-- DELETE FROM bid WHERE n = 1

-- NOT TRANSLATED: SHOW JOBS has no equivalent in a script.
-- SHOW JOBS

-- NOT TRANSLATED: LOAD MODULE has no equivalent in a script.
-- LOAD MODULE hive

-- == a table that nobody declared
SELECT * FROM nowhere;
-- ->
-- NOT TRANSLATED: The table nowhere is not declared in the script; put its CREATE TABLE before this statement.
-- SELECT * FROM nowhere

-- == no SQL
SELECT FROM WHERE;
-- ->
-- NOT TRANSLATED: It cannot be read: Expected table name but got 'WHERE'.
-- SELECT FROM WHERE
