package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.PlannedRead;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.List;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.ProjectingInternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Readers of segments whose Python tasks give rows as events are appended. Behind the columns of the table,
 * each row says how far the segment has been read; one that does not belong to the table says a number of bad events.
 */
record RealTimeReaderFactory(PartitionReaderFactory python, StructType schema) implements PartitionReaderFactory {
  private static final String UNTIL = "pravega.real-time.until";

  static InputPartition[] partitions(PlannedRead plan) {
    InputPartition[] partitions = PravegaScan.partitions(plan.tasks());
    Arrays.setAll(partitions, index -> new Segment(partitions[index], plan.affinities().get(index).toString()));
    return partitions;
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    Segment segment = (Segment) partition;
    return new Reader(() -> python.createReader(segment.python()), segment.id(), schema);
  }

  private record Segment(InputPartition python, String id) implements InputPartition {}

  /** How far a task has read its segment. */
  record Reached(String segment, String offset) implements PartitionOffset {}

  private static final class Reader implements SupportsRealTimeRead<InternalRow> {
    private final Supplier<PartitionReader<InternalRow>> task;
    private final String segment;
    private final int columns;
    private final ProjectingInternalRow row;
    private PartitionReader<InternalRow> python;
    private long offset;

    Reader(Supplier<PartitionReader<InternalRow>> task, String segment, StructType schema) {
      this.task = task;
      this.segment = segment;
      this.columns = schema.length();
      List<Object> ordinals = IntStream.range(0, columns).<Object>mapToObj(ordinal -> ordinal).toList();
      this.row = ProjectingInternalRow.apply(schema, CollectionConverters.asScala(ordinals).toSeq());
    }

    /** The Python task ends by itself at the end of the batch, so that waiting for its next row ends too. */
    @Override
    public RecordStatus nextWithTimeout(Long timeout) throws IOException {
      if (python == null) {
        TaskContext.get().getLocalProperties().setProperty(UNTIL, Long.toString(System.currentTimeMillis() + timeout));
        python = task.get();
      }
      return RecordStatus.newStatusWithoutArrivalTime(next());
    }

    /** Spark 4.2.0 calls this method, and its interface lacks the other one. Spark 4.1 has only the other one. */
    public RecordStatus nextWithTimeout(Long start, Long timeout) throws IOException {
      return nextWithTimeout(timeout);
    }

    @Override
    public boolean next() throws IOException {
      while (python.next()) {
        InternalRow found = python.get();
        offset = found.getLong(columns + 1);
        if (found.isNullAt(columns)) {
          row.project(found);
          return true;
        }
      }
      return false;
    }

    @Override
    public PartitionOffset getOffset() {
      if (python == null) { // Spark asked for no row: the batch was over before this task began
        try {
          nextWithTimeout(-System.currentTimeMillis()); // long over: it only says where the segment's events begin
        } catch (IOException e) {
          throw new UncheckedIOException(e);
        }
      }
      return new Reached(segment, Long.toString(offset));
    }

    @Override
    public InternalRow get() {
      return row;
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      return python == null ? SupportsRealTimeRead.super.currentMetricsValues() : python.currentMetricsValues();
    }

    @Override
    public void close() throws IOException {
      if (python != null) {
        python.close();
      }
    }
  }
}
