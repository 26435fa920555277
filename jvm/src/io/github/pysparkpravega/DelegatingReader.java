package io.github.pysparkpravega;

import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;

/** A reader that gives what another one reads. */
abstract class DelegatingReader implements PartitionReader<InternalRow> {
  final PartitionReader<InternalRow> python;

  DelegatingReader(PartitionReader<InternalRow> python) {
    this.python = python;
  }

  @Override
  public boolean next() throws IOException {
    return python.next();
  }

  @Override
  public InternalRow get() {
    return python.get();
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return python.currentMetricsValues();
  }

  @Override
  public void close() throws IOException {
    python.close();
  }
}
