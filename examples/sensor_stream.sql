-- The sensor pipeline as a stream: files of temperatures into a table, and from there into daily figures.
-- By itself, in the project's root: pyspark-pravega run examples/sensor_stream.sql

SET TIME ZONE 'UTC';

CREATE TABLE temperatures (timestamp TIMESTAMP, sensorId INT, location STRING, temp DOUBLE)
USING csv OPTIONS (path 'examples/hourly_temperatures.csv', header 'true');

CREATE NAMESPACE IF NOT EXISTS pravega.iot;

CREATE TABLE IF NOT EXISTS pravega.iot.sensor_live (timestamp TIMESTAMP, sensorId INT, location STRING, temp DOUBLE)
USING pravega
TBLPROPERTIES ('format'='avro', 'routing-key'='sensorId', 'scaling.min-segments'='4');

CREATE TABLE IF NOT EXISTS pravega.iot.sensor_daily (
  location STRING, date DATE, min DOUBLE, max DOUBLE, avg DOUBLE, count BIGINT)
USING pravega
TBLPROPERTIES ('format'='json', 'routing-key'='location', 'scaling.min-segments'='2');

SET pravega.stream.checkpoint = 'checkpoints';

-- Both run until they are stopped. A micro-batch is one transaction.
INSERT INTO pravega.iot.sensor_live SELECT * FROM STREAM temperatures WITH ('maxFilesPerTrigger'='1');

-- A day is written when it is over: when an event of a later day has come.
INSERT INTO pravega.iot.sensor_daily
SELECT location, to_date(window.start), min(temp), max(temp), round(avg(temp), 2), count(*)
FROM STREAM pravega.iot.sensor_live WATERMARK timestamp DELAY OF INTERVAL 0 HOURS
GROUP BY location, window(timestamp, '1 day');
