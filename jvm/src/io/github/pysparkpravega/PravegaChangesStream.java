package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.storage.BlockManager;
import org.apache.spark.storage.BlockManagerId;
import scala.jdk.javaapi.CollectionConverters;

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
    return new JsonOffset(table.call("start_of_changes", options()).asText());
  }

  private ObjectNode options() {
    return arguments.deepCopy().retain("options");
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
      ObjectNode since = options().put("since", start.json());
      last = new JsonOffset(table.call("end_of_changes", since).asText());
    }
    return last;
  }

  @Override
  public Offset deserializeOffset(String json) {
    return new JsonOffset(json);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    ObjectNode between = arguments.deepCopy().<ObjectNode>without("limit").put("since", start.json()).put("until", end.json());
    between.putArray("found");
    plan = PravegaScan.planned(
        table.call("plan_new_changes", between), between, () -> table.call("plan_new_changes", between));
    InputPartition[] partitions = PravegaScan.partitions(plan.get("tasks"));
    List<BlockManagerId> executors = executors();
    for (int index = 0; index < plan.get("affinities").size() && !executors.isEmpty(); index++) {
      int place = Math.floorMod(plan.get("affinities").get(index).asLong(), executors.size());
      partitions[index] = new HomePartition(partitions[index], executors.get(place));
    }
    return partitions;
  }

  /** Spark asks for it after the partitions of the same batch. */
  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new HomeReaderFactory(PravegaScan.readerFactory(plan.get("tasks")));
  }

  @Override
  public void commit(Offset end) {}

  @Override
  public void stop() {}

  /** In an order that stays, so that a partition comes to the executor that knows the rows of its segments. */
  private static List<BlockManagerId> executors() {
    BlockManager driver = SparkEnv.get().blockManager();
    List<BlockManagerId> found =
        new ArrayList<>(CollectionConverters.asJava(driver.master().getPeers(driver.blockManagerId())));
    found.sort(Comparator.comparing(BlockManagerId::host).thenComparing(BlockManagerId::executorId));
    return found;
  }

  private record HomePartition(InputPartition python, String home) implements InputPartition {
    HomePartition(InputPartition python, BlockManagerId executor) {
      this(python, "executor_" + executor.host() + "_" + executor.executorId()); // as ExecutorCacheTaskLocation reads it
    }

    @Override
    public String[] preferredLocations() {
      return new String[] {home};
    }
  }

  private record HomeReaderFactory(PartitionReaderFactory python) implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      return python.createReader(partition instanceof HomePartition at ? at.python() : partition);
    }
  }
}
