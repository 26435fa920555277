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
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.immutable.Map;
import scala.jdk.javaapi.CollectionConverters;

/** Writers of changed rows. Spark hands them over one by one; they go to a function in a Python worker in batches. */
record KeyedWriters(PythonTask task) implements DeltaWriterFactory {
  private static final int MOST_ROWS = 4096;
  private static final long MOST_BYTES = 8 << 20;

  @Override
  public DeltaWriter<InternalRow> createWriter(int partition, long taskId) {
    if (TaskContext.get().stageAttemptNumber() > 0) {
      throw PravegaException.unchecked(new PravegaException("PRAVEGA_UNSUPPORTED_OPERATION", "0A000",
          "Spark lost rows of the statement while it wrote them, and would have to compute them again from a table"
              + " that may already have some of the new rows. Those stay. Check which rows are new before you run the"
              + " statement again.",
          null));
    }
    return new Writer(task, partition);
  }

  private record Written() implements WriterCommitMessage {}

  private static final class Writer implements DeltaWriter<InternalRow> {
    private final PythonTask task;
    private final int partition;
    private final Map<String, SQLMetric> metrics = PythonTask.metrics();
    private List<InternalRow> changes = new ArrayList<>();
    private long bytes;
    private UnsafeProjection projection;

    Writer(PythonTask task, int partition) {
      this.task = task;
      this.partition = partition;
    }

    @Override
    public void delete(InternalRow metadata, InternalRow id) {
      add("delete", id, null);
    }

    @Override
    public void update(InternalRow metadata, InternalRow id, InternalRow row) {
      add("update", id, row);
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
      task.runToEnd(partition, CollectionConverters.asScala(given.iterator()), metrics, answer -> {});
    }

    @Override
    public WriterCommitMessage commit() {
      if (!changes.isEmpty()) {
        flush();
      }
      return new Written();
    }

    @Override
    public void abort() {}

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      return task.values(metrics);
    }

    @Override
    public void close() {}
  }
}
