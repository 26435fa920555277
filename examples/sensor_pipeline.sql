-- The sensor pipeline: hourly temperatures into a stream, and from there into a stream of daily figures.
-- By itself, in the project's root: pyspark-pravega sql -f examples/sensor_pipeline.sql

SET TIME ZONE 'UTC';

CREATE TEMPORARY VIEW temperatures (timestamp TIMESTAMP, sensorId INT, location STRING, temp DOUBLE)
USING csv OPTIONS (path 'examples/hourly_temperatures.csv', header 'true');

CREATE NAMESPACE IF NOT EXISTS pravega.iot;

-- A table is a stream. Events of one sensor stay in order, spread over four segments.
CREATE TABLE pravega.iot.sensor (timestamp TIMESTAMP, sensorId INT, location STRING, temp DOUBLE)
USING pravega
TBLPROPERTIES ('format'='avro', 'routing-key'='sensorId', 'scaling.min-segments'='4');

-- An INSERT is one transaction: all of it becomes visible, or nothing.
INSERT INTO pravega.iot.sensor SELECT timestamp, sensorId, location, temp FROM temperatures;

CREATE TABLE pravega.iot.sensor_agg (
  location STRING, date DATE, min DOUBLE, max DOUBLE, avg DOUBLE, count BIGINT)
USING pravega
TBLPROPERTIES ('format'='json', 'routing-key'='location', 'scaling.min-segments'='2');

INSERT INTO pravega.iot.sensor_agg
SELECT location, to_date(timestamp), min(temp), max(temp), round(avg(temp), 2), count(*)
FROM pravega.iot.sensor
GROUP BY location, to_date(timestamp);
