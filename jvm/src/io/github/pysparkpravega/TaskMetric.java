package io.github.pysparkpravega;

import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** A number that Python tasks tell, in Spark's UI: the sum over all tasks. */
abstract class TaskMetric extends CustomSumMetric {
  /** The texts of a metric, whose class Spark makes by its name. */
  @Retention(RetentionPolicy.RUNTIME)
  @interface Text {
    String name();

    String description();
  }

  @Override
  public String name() {
    return getClass().getAnnotation(Text.class).name();
  }

  @Override
  public String description() {
    return getClass().getAnnotation(Text.class).description();
  }

  /** Returns some metrics, with those of Spark's Python workers before them. */
  static CustomMetric[] withPython(List<? extends CustomMetric> metrics) {
    return Stream.concat(Arrays.stream(PythonWorkers.metrics()), metrics.stream()).toArray(CustomMetric[]::new);
  }

  /** Returns what a task has told, with the values of others before it: there is a number for each of the metrics. */
  static CustomTaskMetric[] values(CustomTaskMetric[] others, List<? extends CustomMetric> metrics, long[] numbers) {
    CustomTaskMetric[] all = Arrays.copyOf(others, others.length + numbers.length);
    for (int index = 0; index < numbers.length; index++) {
      all[others.length + index] = new Count(metrics.get(index).name(), numbers[index]);
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
