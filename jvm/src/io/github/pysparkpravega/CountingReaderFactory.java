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
 * table, and tells what the task has counted, as `datasource/scan/counts.py` writes it.
 */
record CountingReaderFactory(ColumnarReaders python, int columns) implements ColumnarReaders {
  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return new Reader(python.createColumnarReader(partition), columns);
  }

  private static final class Reader extends DelegatingReader {
    private final int columns;
    private ColumnarBatch batch;
    private long badEvents;
    private long leftOut;
    private long told;

    Reader(PartitionReader<ColumnarBatch> python, int columns) {
      super(python);
      this.columns = columns;
    }

    @Override
    public boolean next() throws IOException {
      while (python.next()) {
        ColumnarBatch found = python.get();
        ColumnVector counts = found.column(columns);
        if (counts.numNulls() == found.numRows()) {
          batch = new ColumnarBatch(columns(found), found.numRows());
          return true;
        }
        for (int row = 0; row < found.numRows(); row++, told++) { // Spark may cut what a task tells into batches
          badEvents += told % 2 == 0 ? counts.getLong(row) : 0;
          leftOut += told % 2 == 0 ? 0 : counts.getLong(row);
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
      CustomTaskMetric[] all = Arrays.copyOf(others, others.length + 2);
      all[others.length] = new Count(BadEventsMetric.NAME, badEvents);
      all[others.length + 1] = new Count(LeftOutMetric.NAME, leftOut);
      return all;
    }
  }

  private record Count(String name, long value) implements CustomTaskMetric {
    /** Spark asks from 4.2 on. */
    public CustomTaskMetric mergeWith(CustomTaskMetric other) {
      return new Count(name, value + other.value());
    }
  }
}
