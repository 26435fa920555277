package io.github.pysparkpravega;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.metric.SQLMetric;
import scala.collection.immutable.Map;
import scala.jdk.javaapi.CollectionConverters;

/** Writers whose rows go to a function in a Python worker, in real time each as it comes. */
record PythonWriters(PythonTask task, boolean inRealTime) implements DataWriterFactory {
  @Override
  public DataWriter<InternalRow> createWriter(int partition, long taskId) {
    return new Writer(task, partition) {
      @Override
      public void writeAll(Iterator<InternalRow> rows) {
        if (inRealTime) {
          RealTimeRows.send(rows, this);
        } else {
          send(rows);
        }
      }

      @Override
      public void write(InternalRow row) {
        throw new UnsupportedOperationException("Spark calls writeAll instead");
      }
    };
  }

  /** What the function has reported, each time that a task has run it, and the sums of its numbers of OF_WRITES. */
  record Written(List<byte[]> reports, long[] numbers) implements WriterCommitMessage {}

  abstract static class Writer implements DataWriter<InternalRow> {
    final PythonTask task;
    private final int partition;
    private final Map<String, SQLMetric> metrics = PythonTask.metrics();
    private final long[] numbers = new long[TaskMetric.OF_WRITES.size()];
    private final List<byte[]> reports = new ArrayList<>();

    Writer(PythonTask task, int partition) {
      this.task = task;
      this.partition = partition;
    }

    final void send(Iterator<InternalRow> rows) {
      send(CollectionConverters.asScala(rows));
    }

    final void send(scala.collection.Iterator<InternalRow> rows) {
      reports.add(task.write(partition, rows, metrics, numbers));
    }

    @Override
    public WriterCommitMessage commit() {
      return new Written(reports, numbers);
    }

    @Override
    public void abort() {}

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      return TaskMetric.values(task.values(metrics), TaskMetric.OF_WRITES, numbers);
    }

    @Override
    public void close() {}
  }
}
