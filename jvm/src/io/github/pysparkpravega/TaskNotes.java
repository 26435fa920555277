package io.github.pysparkpravega;

import io.github.pysparkpravega.Requests.NoteBorders;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.util.AccumulatorV2;

/** Numbers that tasks of a scan tell the driver beside their counts: `datasource/scan/noted_borders.py` has them. */
@SuppressWarnings("serial") // its version is that of the jar
final class TaskNotes extends AccumulatorV2<Long, List<Long>> {
  private final transient PravegaTable table; // on the driver, and null in tasks
  private final List<Long> numbers = new ArrayList<>();

  private TaskNotes(PravegaTable table) {
    this.table = table;
  }

  static TaskNotes of(PravegaTable table) {
    TaskNotes notes = new TaskNotes(table);
    SparkContext.getOrCreate().register(notes);
    return notes;
  }

  /** Lets the service know what a task has told. Who merges must not wait. */
  @Override
  public void merge(AccumulatorV2<Long, List<Long>> ofTask) {
    if (table != null && !ofTask.isZero()) {
      NoteBorders told = new NoteBorders(table.handle(), ofTask.value());
      Service.daemon("borders", () -> table.service().call(told)).start();
    }
  }

  @Override
  public AccumulatorV2<Long, List<Long>> copy() {
    TaskNotes copy = new TaskNotes(null);
    copy.numbers.addAll(numbers);
    return copy;
  }

  @Override
  public void add(Long number) {
    numbers.add(number);
  }

  @Override
  public void reset() {
    numbers.clear();
  }

  @Override
  public boolean isZero() {
    return numbers.isEmpty();
  }

  @Override
  public List<Long> value() {
    return numbers;
  }
}
