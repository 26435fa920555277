CREATE NAMESPACE IF NOT EXISTS pravega.iot;
CREATE TABLE IF NOT EXISTS pravega.iot.sensor (timestamp TIMESTAMP, sensorId INT, location STRING, temp DOUBLE)
  USING pravega TBLPROPERTIES ('format'='avro', 'routing-key'='sensorId', 'scaling.min-segments'='4');
INSERT INTO pravega.iot.sensor VALUES
  (TIMESTAMP '2010-01-01 12:00:00', 1, 'Seattle', 39.4), (TIMESTAMP '2010-01-01 12:00:00', 2, 'San Francisco', 51.7);
SELECT location, max(temp), count(*) FROM pravega.iot.sensor GROUP BY location ORDER BY location;
