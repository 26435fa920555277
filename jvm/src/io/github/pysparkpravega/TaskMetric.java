package io.github.pysparkpravega;

import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** A number that Python tasks tell, in Spark's UI: the sum over all tasks. */
public final class TaskMetric extends CustomSumMetric {
  /** What a scan counts, in the order in which tasks tell it: that of `Counts` in `datasource/scan/counts.py`. */
  static final List<TaskMetric> OF_SCANS = List.of(
      new TaskMetric("badEvents", "number of events that cannot be decoded"),
      new TaskMetric("leftOut", "number of changes left out, as newer ones of their rows came first"),
      new TaskMetric("sievedRows", "number of rows left out by conditions in the tasks"),
      new TaskMetric("segmentSlices", "number of segment slices read"),
      new TaskMetric("bytesRead", "bytes of events read"),
      new TaskMetric("waitedMillis", "milliseconds waiting for segment stores"),
      new TaskMetric("readRetries", "number of reads tried again"));

  /** What a write counts, in the order in which `datasource/spark_functions.py` tells it beside the message. */
  static final List<TaskMetric> OF_WRITES = List.of(
      new TaskMetric("rowsWritten", "number of rows written"),
      new TaskMetric("bytesWritten", "bytes of events written"),
      new TaskMetric("writeRetries", "number of writes tried again"));

  private final String name;
  private final String description;

  private TaskMetric(String name, String description) {
    this.name = name;
    this.description = description;
  }

  /** For Spark's UI, which knows the name of the class alone, and adds numbers up by an object of it. */
  public TaskMetric() {
    this(null, null);
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public String description() {
    return description;
  }

  /** Returns some metrics, with those of Spark's Python workers before them. */
  static CustomMetric[] withPython(List<TaskMetric> metrics) {
    return Stream.concat(Arrays.stream(PythonWorkers.metrics()), metrics.stream()).toArray(CustomMetric[]::new);
  }

  /** Returns what a task has told, with the values of others before it: there is a number for each of the metrics. */
  static CustomTaskMetric[] values(CustomTaskMetric[] others, List<TaskMetric> metrics, long[] numbers) {
    CustomTaskMetric[] all = Arrays.copyOf(others, others.length + numbers.length);
    for (int index = 0; index < numbers.length; index++) {
      all[others.length + index] = new Count(metrics.get(index).name, numbers[index]);
    }
    return all;
  }

  private record Count(String name, long value) implements CustomTaskMetric {
    /** Spark asks from 4.2 on. */
    public CustomTaskMetric mergeWith(CustomTaskMetric other) {
      return new Count(name, value + other.value());
    }
  }
}
