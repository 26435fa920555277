package io.github.pysparkpravega;

import java.io.IOException;
import java.util.Arrays;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Readers of batches with one more column, behind so many `columns`. Where it is not null, the batch has no rows of the
 * table, and tells numbers of bad events: Python tasks have no other way to set a metric.
 */
record CountingReaderFactory(ColumnarReaders python, int columns) implements ColumnarReaders {
  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return new Reader(python.createColumnarReader(partition), columns);
  }

  private static final class Reader extends DelegatingReader {
    private final int columns;
    private ColumnarBatch batch;
    private long bad;

    Reader(PartitionReader<ColumnarBatch> python, int columns) {
      super(python);
      this.columns = columns;
    }

    @Override
    public boolean next() throws IOException {
      while (python.next()) {
        ColumnarBatch found = python.get();
        ColumnVector numbers = found.column(columns);
        if (numbers.numNulls() == found.numRows()) {
          batch = new ColumnarBatch(columns(found), found.numRows());
          return true;
        }
        for (int row = 0; row < found.numRows(); row++) {
          bad += numbers.getLong(row);
        }
      }
      return false;
    }

    private ColumnVector[] columns(ColumnarBatch batch) {
      ColumnVector[] found = new ColumnVector[columns];
      Arrays.setAll(found, batch::column);
      return found;
    }

    @Override
    public ColumnarBatch get() {
      return batch;
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      CustomTaskMetric[] others = python.currentMetricsValues();
      CustomTaskMetric[] all = Arrays.copyOf(others, others.length + 1);
      all[others.length] = new BadEvents(bad);
      return all;
    }
  }

  private record BadEvents(long value) implements CustomTaskMetric {
    @Override
    public String name() {
      return BadEventsMetric.NAME;
    }

    @Override
    public CustomTaskMetric mergeWith(CustomTaskMetric other) {
      return new BadEvents(value + other.value());
    }
  }
}
