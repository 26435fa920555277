package io.github.pysparkpravega;

import java.util.List;

/** What a write counts, in Spark's UI. The classes are public and have no arguments because Spark makes them by name. */
public final class WriteMetrics {
  /** In the order in which tasks tell the numbers beside their message: see `datasource/spark_functions.py`. */
  static final List<TaskMetric> ALL = List.of(new Rows(), new Bytes(), new Retries());

  private WriteMetrics() {}

  @TaskMetric.Text(name = "rowsWritten", description = "number of rows written")
  public static final class Rows extends TaskMetric {}

  @TaskMetric.Text(name = "bytesWritten", description = "bytes of events written")
  public static final class Bytes extends TaskMetric {}

  @TaskMetric.Text(name = "writeRetries", description = "number of writes tried again")
  public static final class Retries extends TaskMetric {}
}
