package io.github.pysparkpravega;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Writers of changed rows. Spark hands them over one by one; they go to a function in a Python worker in batches.
 *
 * @param transactional whether the function writes into a transaction, to which its reports belong, and takes the former
 *     row, which is the metadata, in place of the key.
 */
record KeyedWriters(PythonTask task, boolean transactional) implements DeltaWriterFactory {
  private static final int MOST_ROWS = 32_768;
  private static final long MOST_BYTES = 8 << 20;

  @Override
  public DeltaWriter<InternalRow> createWriter(int partition, long taskId) {
    if (!transactional && TaskContext.get().stageAttemptNumber() > 0) {
      throw PravegaException.unchecked(new PravegaException("PRAVEGA_UNSUPPORTED_OPERATION", "0A000",
          "Spark lost rows of the statement while it wrote them, and would have to compute them again from a table"
              + " that may already have some of the new rows. Those stay. Check which rows are new before you run the"
              + " statement again.",
          null));
    }
    return new Writer(task, transactional, partition);
  }

  /** Returns the columns that the function takes: an operation, what identifies a row, and the new row if it has columns. */
  static StructType input(String identifier, StructType identified, StructType row) {
    StructType schema = new StructType().add("operation", DataTypes.StringType).add(identifier, identified);
    return row.isEmpty() ? schema : schema.add("row", row);
  }

  private static final class Writer extends PythonWriters.Writer implements DeltaWriter<InternalRow> {
    private final boolean transactional;
    private List<InternalRow> changes = new ArrayList<>();
    private long bytes;
    private UnsafeProjection projection; // of the first row: many tasks of a statement that changes few rows have none

    Writer(PythonTask task, boolean transactional, int partition) {
      super(task, partition);
      this.transactional = transactional;
    }

    @Override
    public void delete(InternalRow metadata, InternalRow id) {
      add("delete", transactional ? metadata : id, null);
    }

    @Override
    public void update(InternalRow metadata, InternalRow id, InternalRow row) {
      add("update", transactional ? metadata : id, row);
    }

    @Override
    public void insert(InternalRow row) {
      add("insert", null, row);
    }

    private void add(String operation, InternalRow id, InternalRow row) {
      Object[] change = new Object[task.input().length()];
      change[0] = UTF8String.fromString(operation);
      change[1] = id;
      if (change.length > 2) {
        change[2] = row;
      }
      if (projection == null) {
        projection = UnsafeProjection.create(task.input());
      }
      UnsafeRow kept = projection.apply(new GenericInternalRow(change)).copy();
      changes.add(kept);
      bytes += kept.getSizeInBytes();
      if (changes.size() == MOST_ROWS || bytes >= MOST_BYTES) {
        flush();
      }
    }

    private void flush() {
      List<InternalRow> given = changes;
      changes = new ArrayList<>();
      bytes = 0;
      send(given.iterator());
    }

    @Override
    public WriterCommitMessage commit() {
      if (!changes.isEmpty()) {
        flush();
      }
      return super.commit();
    }

    /** Spark asks before the commit, which writes the last rows: the driver tells the numbers. */
    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      return new CustomTaskMetric[0];
    }
  }
}
