package io.github.pysparkpravega;

import java.io.IOException;
import java.util.Collections;
import java.util.Iterator;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Readers of columns; of their rows for those who want rows. */
interface ColumnarReaders extends PartitionReaderFactory {
  @Override
  default boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  @Override
  default PartitionReader<InternalRow> createReader(InputPartition partition) {
    return new Rows(createColumnarReader(partition));
  }

  /**
   * The rows of batches, made as Spark itself makes rows of columns, because some of its functions take a value from an
   * array of Arrow without looking whether it is null. A row is valid until the next one is asked for.
   */
  final class Rows implements PartitionReader<InternalRow> {
    private final PartitionReader<ColumnarBatch> batches;
    private Iterator<InternalRow> rows = Collections.emptyIterator();
    private UnsafeProjection projection;
    private InternalRow row;

    private Rows(PartitionReader<ColumnarBatch> batches) {
      this.batches = batches;
    }

    @Override
    public boolean next() throws IOException {
      while (!rows.hasNext()) {
        if (!batches.next()) {
          return false;
        }
        ColumnarBatch batch = batches.get();
        if (projection == null) {
          projection = UnsafeProjection.create(
              IntStream.range(0, batch.numCols()).mapToObj(batch::column).map(ColumnVector::dataType)
                  .toArray(DataType[]::new));
        }
        rows = batch.rowIterator();
      }
      row = projection.apply(rows.next());
      return true;
    }

    @Override
    public InternalRow get() {
      return row;
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      return batches.currentMetricsValues();
    }

    @Override
    public void close() throws IOException {
      batches.close();
    }
  }
}
