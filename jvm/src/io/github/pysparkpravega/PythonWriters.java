package io.github.pysparkpravega;

import java.util.Iterator;
import java.util.Objects;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.execution.metric.SQLMetric;
import scala.collection.immutable.Map;
import scala.jdk.javaapi.CollectionConverters;

/** Writers whose rows go to a function in a Python worker, which returns one message. */
record PythonWriters(PythonTask task) implements DataWriterFactory {
  @Override
  public DataWriter<InternalRow> createWriter(int partition, long taskId) {
    return new Writer(task, partition);
  }

  private static final class Writer implements DataWriter<InternalRow> {
    private final PythonTask task;
    private final int partition;
    private final Map<String, SQLMetric> metrics = PythonTask.metrics();
    private final long[] numbers = new long[WriteMetrics.ALL.size()];
    private WriterCommitMessage message;

    Writer(PythonTask task, int partition) {
      this.task = task;
      this.partition = partition;
    }

    @Override
    public void writeAll(Iterator<InternalRow> rows) {
      message = new PythonWriterCommitMessage(
          task.write(partition, CollectionConverters.asScala(rows), metrics, numbers));
    }

    @Override
    public void write(InternalRow row) {
      throw new UnsupportedOperationException("Spark calls writeAll instead");
    }

    @Override
    public WriterCommitMessage commit() {
      return Objects.requireNonNull(message, "The function returned no message");
    }

    @Override
    public void abort() {}

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      return TaskMetric.values(task.values(metrics), WriteMetrics.ALL, numbers);
    }

    @Override
    public void close() {}
  }
}
