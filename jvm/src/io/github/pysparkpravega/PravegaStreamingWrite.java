package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.InsertBegun;
import io.github.pysparkpravega.Requests.*;
import java.util.Locale;
import java.util.UUID;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.streaming.RealTimeTrigger;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.streaming.Trigger;

/**
 * One micro-batch of a query: an INSERT whose commit the service remembers by the query's id and the batch's number.
 */
final class PravegaStreamingWrite implements StreamingWrite {
  private static final String EPOCH = "streaming.sql.batchId";

  private final PravegaTable table;
  private final LogicalWriteInfo info;
  private final StreamExecution query;
  private final PravegaBatchWrite batch;

  PravegaStreamingWrite(PravegaTable table, LogicalWriteInfo info) {
    this.table = table;
    this.info = info;
    this.query = query(info.queryId());
    this.batch = new PravegaBatchWrite(table, info);
  }

  PravegaTable table() {
    return table;
  }

  /** Returns the streaming query with an id, whose session is a copy of the one that started it; null for a batch. */
  static StreamExecution query(String id) {
    return SparkSession.active().sharedState().activeStreamingQueries().get(UUID.fromString(id));
  }

  /**
   * Returns a query's output mode, append for a batch. Spark tells it to no sink: it hands over every update as an
   * append, and every complete result as an overwrite.
   */
  static String outputMode(LogicalWriteInfo info) {
    StreamExecution query = query(info.queryId());
    return query == null || hasNewRowsOnly(query.trigger(), query.logicalPlan()) ? "append"
        : query.outputMode().toString().toLowerCase(Locale.ROOT);
  }

  /** Says whether a query appends although its output mode is update, as it always is in real-time mode. */
  static boolean hasNewRowsOnly(Trigger trigger, LogicalPlan plan) {
    return trigger instanceof RealTimeTrigger && !plan.exists(
        part -> part.isStreaming() && (part instanceof Aggregate || part instanceof Distinct));
  }

  @Override
  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo physical) {
    InsertBegun begun = table.service().repeat(new BeginEpoch(
        table.handle(), info.schema(), physical.numPartitions(), info.options().asCaseSensitiveMap(), false,
        query.id().toString(), query.runId().toString(), epoch(), outputMode(info)));
    if (!isRealTime()) {
      return new EpochWrites(batch.writers(begun));
    }
    PythonTask task = batch.begin(begun, info.schema());
    if (!begun.insert().kind().equals("without transaction")) {
      batch.abort(new WriterCommitMessage[0]);
      table.refuse("trigger(realTime)");
    }
    return new EpochWrites(new PythonWriters(task, true));
  }

  private boolean isRealTime() {
    return query.trigger() instanceof RealTimeTrigger;
  }

  /** Returns the number of the micro-batch that this thread runs. Spark itself tells it only to tasks and the commit. */
  private static long epoch() {
    return Long.parseLong(SparkSession.active().sparkContext().getLocalProperty(EPOCH));
  }

  @Override
  public void commit(long epoch, WriterCommitMessage[] messages) {
    String offsets = isRealTime() ? "" : SparkLine.readLog(query, epoch); // in real time it is written afterwards
    batch.commit((insert, again) -> new CommitEpoch(
        table.handle(), insert, PravegaBatchWrite.messagesOf(messages), again, query.id().toString(),
        query.runId().toString(), epoch, offsets, watermark(epoch)));
  }

  /** Returns Spark's watermark during a micro-batch, in milliseconds since 1970; null if the query has none. */
  private Long watermark(long epoch) {
    boolean has = !isRealTime() && query.logicalPlan().exists(part -> part instanceof EventTimeWatermark);
    return has ? SparkLine.readWatermark(query, epoch) : null;
  }

  @Override
  public void abort(long epoch, WriterCommitMessage[] messages) {
    batch.abort(messages);
  }

  private record EpochWrites(DataWriterFactory tasks) implements StreamingDataWriterFactory {
    @Override
    public DataWriter<InternalRow> createWriter(int partition, long task, long epoch) {
      return tasks.createWriter(partition, task);
    }
  }
}
