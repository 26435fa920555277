package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
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

/** The rows of a table as a stream: the service knows its offsets, and plans what lies between two of them. */
final class PravegaTableStream
    implements MicroBatchStream, SupportsTriggerAvailableNow, SupportsRealTimeMode, ReportsSourceMetrics {
  private final PravegaTable table;
  private final ObjectNode arguments;
  private final String checkpoint;
  private String last;
  private volatile JsonNode end;
  private JsonNode plan;
  private boolean realTime;

  PravegaTableStream(PravegaTable table, ObjectNode arguments) {
    this.table = table;
    this.checkpoint = arguments.get("checkpoint").asText();
    this.arguments = arguments.deepCopy().retain("columns", "options");
  }

  /** Return what the progress of a query calls its source. */
  @Override
  public String toString() {
    return table.name();
  }

  private JsonNode call(String operation, ObjectNode arguments) {
    return table.callOfStream(operation, arguments);
  }

  @Override
  public Offset initialOffset() {
    return new JsonOffset(call("start_of_stream", arguments.deepCopy()).asText());
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return ReadLimits.of(call("limits_of_stream", arguments.deepCopy()));
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) is called instead");
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    last = call("last_of_stream", arguments.deepCopy()).asText();
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    ObjectNode since = arguments.deepCopy().put("since", start.json()).put("last", last);
    since.put("checkpoint", checkpoint).set("limits", ReadLimits.json(limit));
    end = call("end_of_micro_batch", since);
    return new JsonOffset(end.get("offset").asText());
  }

  @Override
  public Offset reportLatestOffset() {
    return end == null ? null : new JsonOffset(end.get("latest").asText());
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> latestConsumedOffset) {
    return end == null ? Map.of() : Service.texts(end.get("metrics"));
  }

  @Override
  public Offset deserializeOffset(String json) {
    return new JsonOffset(json);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    ObjectNode between = arguments.deepCopy().put("since", start.json()).put("until", end.json());
    plan = call("plan_micro_batch", between.put("checkpoint", checkpoint));
    return PravegaScan.partitions(plan.get("tasks"));
  }

  /** Spark asks for it after the partitions of the same batch. */
  @Override
  public PartitionReaderFactory createReaderFactory() {
    JsonNode tasks = plan.get("tasks");
    return realTime ? PravegaScan.realTimeReaderFactory(tasks) : PravegaScan.readerFactory(tasks);
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
    plan = call("plan_real_time", arguments.deepCopy().put("since", start.json()).put("checkpoint", checkpoint));
    return RealTimeReaderFactory.partitions(plan);
  }

  @Override
  public Offset mergeOffsets(PartitionOffset[] reached) {
    ObjectNode end = arguments.deepCopy();
    ArrayNode offsets = end.putArray("reached");
    for (PartitionOffset each : reached) {
      RealTimeReaderFactory.Reached segment = (RealTimeReaderFactory.Reached) each;
      offsets.addArray().add(segment.segment()).add(segment.offset());
    }
    return new JsonOffset(call("end_of_real_time", end).asText());
  }

  @Override
  public void commit(Offset end) {
    call("commit_micro_batch", arguments.deepCopy().put("until", end.json()).put("checkpoint", checkpoint));
  }

  @Override
  public void stop() {
    call("stop_stream", arguments.deepCopy().put("checkpoint", checkpoint));
  }
}
