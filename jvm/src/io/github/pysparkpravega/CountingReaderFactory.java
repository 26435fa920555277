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
    private final long[] numbers = new long[ScanMetrics.ALL.size()];
    private int metric;
    private long number;
    private int shift;
    private int octet;
    private int bit;

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
        for (int row = 0; row < found.numRows(); row++) { // Spark may cut what a task tells into batches
          take(counts.getBoolean(row));
        }
      }
      return false;
    }

    /** Takes the next bit of a byte, which has seven bits of a number, and says whether more of it follow. */
    private void take(boolean set) {
      octet |= set ? 1 << bit : 0;
      if (++bit < Byte.SIZE) {
        return;
      }
      number |= (octet & 0x7FL) << shift;
      shift += 7;
      if (octet < 0x80) {
        numbers[metric] += number;
        metric = (metric + 1) % numbers.length;
        number = 0;
        shift = 0;
      }
      octet = 0;
      bit = 0;
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
      return TaskMetric.values(python.currentMetricsValues(), ScanMetrics.ALL, numbers);
    }
  }
}
