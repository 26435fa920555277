-- A streaming table is a stream of Pravega: `pravega.iot` is the pipeline's default.
CREATE STREAMING TABLE hot (sensorId INT, location STRING, temp DOUBLE)
USING pravega
TBLPROPERTIES ('format'='avro', 'routing-key'='sensorId');

-- Two flows into one table; a table of Pravega is the source of each.
CREATE FLOW hot_in_seattle AS INSERT INTO hot BY NAME
SELECT sensorId, location, temp FROM STREAM sensor WHERE location = 'Seattle' AND temp > 70;

CREATE FLOW hot_elsewhere AS INSERT INTO hot BY NAME
SELECT sensorId, location, temp FROM STREAM sensor WHERE location <> 'Seattle' AND temp > 65;
