CREATE TABLE bid (
  item STRING,
  price DECIMAL(10, 2),
  n INT,
  bidtime TIMESTAMP(3),
  tags ARRAY<STRING>,
  m MAP<STRING, INT>,
  WATERMARK FOR bidtime AS bidtime - INTERVAL '5' SECOND
) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot',
  'scan.streams' = 'bid', 'sink.stream' = 'bid', 'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601');
CREATE TABLE totals (item STRING, total DOUBLE) WITH ('connector' = 'pravega', 'controller-uri' = 'tcp://localhost:9090',
  'scope' = 'iot', 'scan.streams' = 'totals', 'sink.stream' = 'totals', 'scan.execution.type' = 'batch', 'format' = 'avro');
CREATE TABLE per_window (w TIMESTAMP(3), item STRING, total DECIMAL(20, 2)) WITH ('connector' = 'pravega',
  'controller-uri' = 'tcp://localhost:9090', 'scope' = 'iot', 'scan.streams' = 'per-window', 'sink.stream' = 'per-window',
  'sink.semantic' = 'exactly-once', 'scan.execution.type' = 'batch', 'format' = 'avro');
INSERT INTO bid VALUES
  ('a', 4.00, 7, TIMESTAMP '2020-04-15 08:05:00', ARRAY['x', 'y'], MAP['k', 1]),
  ('b', 2.00, 2, TIMESTAMP '2020-04-15 08:07:00', ARRAY['z'], MAP['k', 2]),
  ('a', 5.00, 3, TIMESTAMP '2020-04-15 08:09:00', ARRAY['x'], MAP['k', 3]),
  ('c', 3.00, 4, TIMESTAMP '2020-04-15 08:11:00', ARRAY['x'], MAP['k', 4]),
  ('d', 1.00, 5, TIMESTAMP '2020-04-15 08:13:00', ARRAY['x'], MAP['k', 5]),
  ('a', 6.00, 6, TIMESTAMP '2020-04-16 08:17:00', ARRAY['x'], MAP['k', 6]);
SET 'state.checkpoints.dir' = 'file:///data/checkpoints';
