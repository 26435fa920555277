package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.*;
import io.github.pysparkpravega.Requests.*;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.types.StructType;

/** The rows of a table as a stream: the service knows its offsets, and plans what lies between two of them. */
final class PravegaTableStream
    implements MicroBatchStream, SupportsTriggerAvailableNow, SupportsRealTimeMode, ReportsSourceMetrics {
  private final PravegaTable table;
  private final StructType columns;
  private final Map<String, String> options;
  private final String checkpoint;
  private String last;
  private volatile MicroBatchEnd end;
  private PlannedRead plan;
  private String planned;
  private boolean realTime;

  PravegaTableStream(PravegaTable table, StructType columns, Map<String, String> options, String checkpoint) {
    this.table = table;
    this.columns = columns;
    this.options = options;
    this.checkpoint = checkpoint;
  }

  /** Returns the name of the source in a query's progress. */
  @Override
  public String toString() {
    return table.name();
  }

  @Override
  public Offset initialOffset() {
    return new JsonOffset(
        table.service().repeat(new StartOfStream(table.handle(), table.id(), columns, options)));
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return ReadLimits.of(
        table.service().repeat(new LimitsOfStream(table.handle(), table.id(), columns, options)));
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("Spark calls latestOffset(Offset, ReadLimit) instead");
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    last = table.service().repeat(new LastOfStream(table.handle(), table.id(), columns, options));
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    end = table.service().repeat(new EndOfMicroBatch(
        table.handle(), table.id(), columns, options, start.json(), last, ReadLimits.describe(limit), checkpoint));
    return new JsonOffset(end.offset());
  }

  @Override
  public Offset reportLatestOffset() {
    return end == null ? null : new JsonOffset(end.latest());
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumedOffset) {
    return end == null ? Map.of() : end.metrics();
  }

  @Override
  public Offset deserializeOffset(String json) {
    return new JsonOffset(json);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    return PravegaScan.partitions(plan(start, end).tasks());
  }

  /** Returns the bytes of the events between two offsets. */
  long bytes(Offset start, Offset end) {
    return plan(start, end).bytes();
  }

  private synchronized PlannedRead plan(Offset start, Offset end) {
    String range = start.json() + "\n" + end.json();
    if (!range.equals(planned)) {
      plan = table.service().repeat(new PlanMicroBatch(
          table.handle(), table.id(), columns, options, start.json(), end.json(), checkpoint));
      planned = range;
    }
    return plan;
  }

  /** Makes the readers of the last planned batch: Spark calls this after it has planned the partitions. */
  @Override
  public PartitionReaderFactory createReaderFactory() {
    return realTime ? PravegaScan.realTimeReaderFactory(plan.tasks()) : PravegaScan.readerFactory(plan.tasks());
  }

  @Override
  public void prepareForRealTimeMode() {
    realTime = true;
  }

  boolean isRealTime() {
    return realTime;
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start) {
    plan = table.service().repeat(
        new PlanRealTime(table.handle(), table.id(), columns, options, start.json(), checkpoint));
    planned = null;
    return RealTimeReaderFactory.partitions(plan);
  }

  @Override
  public Offset mergeOffsets(PartitionOffset[] reached) {
    Map<String, String> offsets = new HashMap<>();
    for (PartitionOffset offset : reached) {
      RealTimeReaderFactory.Reached segment = (RealTimeReaderFactory.Reached) offset;
      offsets.put(segment.segment(), segment.offset());
    }
    return new JsonOffset(
        table.service().repeat(new EndOfRealTime(table.handle(), table.id(), columns, options, offsets)));
  }

  @Override
  public void commit(Offset end) {
    table.service().repeat(
        new CommitMicroBatch(table.handle(), table.id(), columns, options, end.json(), checkpoint));
  }

  @Override
  public void stop() {
    table.service().repeat(new StopStream(table.handle(), table.id(), columns, options, checkpoint));
  }
}
