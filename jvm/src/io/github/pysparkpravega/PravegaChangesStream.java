package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/** A stream of changes: the service knows where it begins and ends, and plans what lies in between. */
final class PravegaChangesStream implements MicroBatchStream, SupportsTriggerAvailableNow {
  private final PravegaTable table;
  private final ObjectNode arguments;
  private JsonNode plan;
  private boolean availableNow;
  private Offset last;

  PravegaChangesStream(PravegaTable table, ObjectNode arguments) {
    this.table = table;
    this.arguments = arguments;
  }

  @Override
  public Offset initialOffset() {
    return new Position(table.call("start_of_changes", arguments.deepCopy()).asText());
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) is called instead");
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    availableNow = true;
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    if (!availableNow || last == null) {
      ObjectNode since = arguments.deepCopy().put("since", start.json());
      last = new Position(table.call("end_of_changes", since).asText());
    }
    return last;
  }

  @Override
  public Offset deserializeOffset(String json) {
    return new Position(json);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    ObjectNode between = arguments.deepCopy().put("since", start.json()).put("until", end.json());
    plan = table.call("plan_new_changes", between);
    return PravegaScan.partitions(plan);
  }

  /** Spark asks for it after the partitions of the same batch. */
  @Override
  public PartitionReaderFactory createReaderFactory() {
    return PravegaScan.readerFactory(plan);
  }

  @Override
  public void commit(Offset end) {}

  @Override
  public void stop() {}

  private static final class Position extends Offset {
    private final String json;

    Position(String json) {
      this.json = json;
    }

    @Override
    public String json() {
      return json;
    }
  }
}
