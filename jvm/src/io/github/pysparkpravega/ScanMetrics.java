package io.github.pysparkpravega;

import java.util.List;

/** What a scan counts, in Spark's UI. The classes are public and have no arguments because Spark makes them by name. */
public final class ScanMetrics {
  /** In the order in which tasks tell the numbers: that of the fields of `Counts` in `datasource/scan/counts.py`. */
  static final List<TaskMetric> ALL = List.of(new BadEvents(), new LeftOut(), new Sieved(), new Slices(), new Bytes(),
      new Waited(), new Retries());

  private ScanMetrics() {}

  @TaskMetric.Text(name = "badEvents", description = "number of events that cannot be decoded")
  public static final class BadEvents extends TaskMetric {}

  @TaskMetric.Text(name = "leftOut", description = "number of changes left out, as newer ones of their rows came first")
  public static final class LeftOut extends TaskMetric {}

  @TaskMetric.Text(name = "sievedRows", description = "number of rows left out by conditions in the tasks")
  public static final class Sieved extends TaskMetric {}

  @TaskMetric.Text(name = "segmentSlices", description = "number of segment slices read")
  public static final class Slices extends TaskMetric {}

  @TaskMetric.Text(name = "bytesRead", description = "bytes of events read")
  public static final class Bytes extends TaskMetric {}

  @TaskMetric.Text(name = "waitedMillis", description = "milliseconds waiting for segment stores")
  public static final class Waited extends TaskMetric {}

  @TaskMetric.Text(name = "readRetries", description = "number of reads tried again")
  public static final class Retries extends TaskMetric {}
}
