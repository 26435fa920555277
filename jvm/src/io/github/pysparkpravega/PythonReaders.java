package io.github.pysparkpravega;

import java.util.List;
import org.apache.arrow.vector.BitVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.complex.StructVector;
import org.apache.spark.api.python.PythonException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.CollectionAccumulator;
import scala.collection.Iterator;
import scala.collection.immutable.Map;

/**
 * Readers of the batches that a function makes of a partition in a Python worker. If these have a column behind so many
 * `columns`, the task counts what it reads: where that column is not null, the batch has no rows of the table, but
 * counts, as `datasource/scan/counts.py` writes them, or `notes`.
 */
record PythonReaders(PythonTask task, int columns, @OrNull CollectionAccumulator<Long> notes) implements ColumnarReaders {
  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return new Reader((PythonInputPartition) partition);
  }

  private final class Reader implements PartitionReader<ColumnarBatch> {
    private static final int ENTRY_BITS = 48;
    private final boolean isCounted = task.output().length() > columns;
    private final Map<String, SQLMetric> metrics = PythonTask.metrics();
    private final Iterator<ColumnarBatch> batches;
    private final long[] numbers = new long[TaskMetric.OF_SCANS.size()];
    private long entry;
    private int bit;
    private ColumnarBatch batch;

    Reader(PythonInputPartition partition) {
      InternalRow row = new GenericInternalRow(new Object[] {partition.pickedPartition()});
      try {
        batches = task.run(partition.index(), scala.collection.Iterator.single(row), metrics);
      } catch (PythonException e) {
        throw TaskErrors.unwrap(e);
      }
    }

    @Override
    public boolean next() {
      try {
        while (batches.hasNext()) {
          ColumnarBatch found = batches.next();
          // If there are neither columns nor rows, Spark's worker sends nulls and not a struct.
          List<FieldVector> vectors =
              ((ArrowColumnVector) found.column(0)).getValueVector() instanceof StructVector struct
                  ? struct.getChildrenFromFields()
                  : List.of();
          if (isCounted && vectors.get(columns).getNullCount() < found.numRows()) {
            take((BitVector) vectors.get(columns));
            continue;
          }
          ColumnVector[] lent = vectors.stream().limit(columns)
              .map(vector -> new LentColumn(new ArrowColumnVector(vector))).toArray(ColumnVector[]::new);
          batch = new ColumnarBatch(lent, found.numRows());
          return true;
        }
        return false;
      } catch (PythonException e) {
        throw TaskErrors.unwrap(e);
      }
    }

    /** Adds numbers behind their places. Spark may cut what a task tells into batches: the next one continues it then. */
    private void take(BitVector counts) {
      for (int row = 0; row < counts.getValueCount(); row++) {
        entry |= (long) counts.get(row) << bit;
        bit = (bit + 1) % ENTRY_BITS;
        if (bit == 0) {
          int place = (int) entry & 7;
          if (place < numbers.length) {
            numbers[place] += entry >> 3;
          } else if (notes != null) {
            notes.add(entry >> 3);
          }
          entry = 0;
        }
      }
    }

    @Override
    public ColumnarBatch get() {
      return batch;
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      CustomTaskMetric[] ofPython = task.values(metrics);
      return isCounted ? TaskMetric.values(ofPython, TaskMetric.OF_SCANS, numbers) : ofPython;
    }

    @Override
    public void close() {}
  }
}
