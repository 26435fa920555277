-- Put your own script here. Statements run again whenever the pod starts; a streaming query goes on where it stopped.
CREATE NAMESPACE IF NOT EXISTS pravega.iot;

CREATE TABLE IF NOT EXISTS pravega.iot.sensor (sensorId INT, timestamp TIMESTAMP, temp DOUBLE)
USING pravega TBLPROPERTIES ('routing-key'='sensorId');

CREATE TABLE IF NOT EXISTS pravega.iot.alerts (sensorId INT, timestamp TIMESTAMP, temp DOUBLE)
USING pravega TBLPROPERTIES ('routing-key'='sensorId');

SET pravega.stream.checkpoint = '/home/spark/checkpoints';

INSERT INTO pravega.iot.alerts SELECT sensorId, timestamp, temp FROM STREAM pravega.iot.sensor WHERE temp > 30;
