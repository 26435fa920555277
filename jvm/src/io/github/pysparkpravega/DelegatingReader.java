package io.github.pysparkpravega;

import java.io.IOException;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** A reader that gives the batches that another one reads. */
abstract class DelegatingReader implements PartitionReader<ColumnarBatch> {
  final PartitionReader<ColumnarBatch> python;

  DelegatingReader(PartitionReader<ColumnarBatch> python) {
    this.python = python;
  }

  @Override
  public boolean next() throws IOException {
    return python.next();
  }

  @Override
  public ColumnarBatch get() {
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
