package io.github.pysparkpravega;

import java.util.List;

/** What a scan counts, in Spark's UI. The classes are public and have no arguments because Spark makes them by name. */
public final class ScanMetrics {
  /** In the order in which tasks tell the numbers: that of the fields of `Counts` in `datasource/scan/counts.py`. */
  static final List<TaskMetric> ALL = List.of(new BadEvents(), new LeftOut(), new Sieved(), new Slices(), new Bytes(),
      new Waited(), new Retries());

  private ScanMetrics() {}

  public static final class BadEvents extends TaskMetric {
    public BadEvents() {
      super("badEvents", "number of events that cannot be decoded");
    }
  }

  public static final class LeftOut extends TaskMetric {
    public LeftOut() {
      super("leftOut", "number of changes left out, as newer ones of their rows came first");
    }
  }

  public static final class Sieved extends TaskMetric {
    public Sieved() {
      super("sievedRows", "number of rows left out by conditions in the tasks");
    }
  }

  public static final class Slices extends TaskMetric {
    public Slices() {
      super("segmentSlices", "number of segment slices read");
    }
  }

  public static final class Bytes extends TaskMetric {
    public Bytes() {
      super("bytesRead", "bytes of events read");
    }
  }

  public static final class Waited extends TaskMetric {
    public Waited() {
      super("waitedMillis", "milliseconds waiting for segment stores");
    }
  }

  public static final class Retries extends TaskMetric {
    public Retries() {
      super("readRetries", "number of reads tried again");
    }
  }
}
