package io.github.pysparkpravega;

import io.github.pysparkpravega.Requests.NoteBorders;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.util.AccumulatorV2;
import org.apache.spark.util.CollectionAccumulator;

/** Numbers that tasks of a scan tell the driver beside their counts: `datasource/scan/noted_borders.py` has them. */
@SuppressWarnings("serial") // tasks get a plain accumulator in its place
final class TaskNotes extends CollectionAccumulator<Long> {
  private final PravegaTable table;

  TaskNotes(PravegaTable table) {
    this.table = table;
    SparkContext.getOrCreate().register(this);
  }

  /** Lets the service know what a task has told. Who merges must not wait. */
  @Override
  public void merge(AccumulatorV2<Long, List<Long>> ofTask) {
    if (!ofTask.isZero()) {
      NoteBorders told = new NoteBorders(table.handle(), ofTask.value());
      Service.daemon("borders", () -> table.service().call(told)).start();
    }
  }
}
