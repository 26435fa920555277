package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.*;
import io.github.pysparkpravega.Requests.*;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingSourceOffset;
import org.apache.spark.sql.types.StructType;

/** The rows of a table as a stream. */
final class PravegaTableStream extends PravegaStream implements SupportsRealTimeMode, ReportsSourceMetrics {
  private boolean realTime;

  PravegaTableStream(PravegaTable table, StructType columns, Map<String, String> options, String checkpoint) {
    super(table, columns, options, checkpoint);
  }

  @Override
  public Offset reportLatestOffset() {
    return end == null ? null : new PythonStreamingSourceOffset(end.latest());
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumedOffset) {
    return end == null ? Map.of() : end.metrics();
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    return PravegaScan.partitions(plan(start, end).tasks());
  }

  @Override
  PlannedRead planBetween(Offset start, Offset end) {
    return ask(new PlanMicroBatch(query, new BatchRange(start.json(), end.json(), null, null)));
  }

  /** Makes the readers of the last planned batch: Spark calls this after it has planned the partitions. */
  @Override
  public PartitionReaderFactory createReaderFactory() {
    return realTime ? PravegaScan.realTimeReaderFactory(plan.tasks()) : PravegaScan.readerFactory(plan.tasks(), null);
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
    plan = ask(new PlanRealTime(query, start.json()));
    return RealTimeReaderFactory.partitions(plan);
  }

  @Override
  public Offset mergeOffsets(PartitionOffset[] reached) {
    Map<String, String> offsets = new HashMap<>();
    for (PartitionOffset offset : reached) {
      RealTimeReaderFactory.Reached segment = (RealTimeReaderFactory.Reached) offset;
      offsets.put(segment.segment(), segment.offset());
    }
    return new PythonStreamingSourceOffset(ask(new EndOfRealTime(query, offsets)));
  }
}
