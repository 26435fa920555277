package io.github.pysparkpravega;

import java.util.List;
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
import scala.collection.Iterator;
import scala.collection.immutable.Map;

/** Readers of the batches that a function makes of a partition in a Python worker. */
record PythonReaders(PythonTask task) implements ColumnarReaders {
  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return new Reader(task, (PythonInputPartition) partition);
  }

  private static final class Reader implements PartitionReader<ColumnarBatch> {
    private final PythonTask task;
    private final Map<String, SQLMetric> metrics = PythonTask.metrics();
    private final Iterator<ColumnarBatch> batches;

    Reader(PythonTask task, PythonInputPartition partition) {
      this.task = task;
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
        return batches.hasNext();
      } catch (PythonException e) {
        throw TaskErrors.unwrap(e);
      }
    }

    @Override
    public ColumnarBatch get() {
      ColumnarBatch batch = batches.next();
      // If there are neither columns nor rows, Spark's worker sends nulls and not a struct.
      List<FieldVector> columns =
          ((ArrowColumnVector) batch.column(0)).getValueVector() instanceof StructVector struct
              ? struct.getChildrenFromFields()
              : List.of();
      ColumnVector[] lent = columns.stream().map(column -> new LentColumn(new ArrowColumnVector(column)))
          .toArray(ColumnVector[]::new);
      return new ColumnarBatch(lent, batch.numRows());
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      return task.values(metrics);
    }

    @Override
    public void close() {}
  }
}
