package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.storage.BlockManager;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.util.SerializableConfiguration;
import scala.jdk.javaapi.CollectionConverters;

/** A stream of changes: the service knows where it begins and ends, and plans what lies in between. */
final class PravegaChangesStream implements MicroBatchStream, SupportsTriggerAvailableNow {
  private final PravegaTable table;
  private final ObjectNode arguments;
  private final String checkpoint;
  private final RowFiles rows;
  private JsonNode plan;
  private boolean availableNow;
  private String last;

  PravegaChangesStream(PravegaTable table, ObjectNode arguments) {
    this.table = table;
    this.arguments = arguments;
    this.checkpoint = arguments.get("checkpoint").asText();
    this.rows = table.hasRowKey() ? new RowFiles(checkpoint, conf()).withFolder() : null;
  }

  /** Return what the progress of a query calls its source. */
  @Override
  public String toString() {
    return table.name();
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
  public ReadLimit getDefaultReadLimit() {
    return ReadLimits.of(table.call("limits_of_changes", options()));
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    availableNow = true;
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    if (availableNow && last == null) {
      last = end(start, null);
    }
    return new JsonOffset(end(start, ReadLimits.json(limit)));
  }

  private String end(Offset start, ObjectNode limits) {
    ObjectNode since = options().put("since", start.json()).put("last", last).put("checkpoint", checkpoint);
    since.set("limits", limits);
    return table.call("end_of_changes", since).asText();
  }

  @Override
  public Offset deserializeOffset(String json) {
    return new JsonOffset(json);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    ObjectNode between = arguments.deepCopy().<ObjectNode>without("limit").put("since", start.json()).put("until", end.json());
    between.putArray("found");
    List<String> names = rows == null ? List.of() : rows.names();
    between.put("known", rows == null ? null : rows.known(names, start.json()));
    names.forEach(between.putArray("files")::add);
    between.put("retain", SparkSession.active().sessionState().conf().minBatchesToRetain());
    plan = PravegaScan.planned(
        table.call("plan_new_changes", between), between, () -> table.call("plan_new_changes", between));
    InputPartition[] partitions = PravegaScan.partitions(plan.get("tasks"));
    if (rows == null) {
      return partitions;
    }
    JsonNode planned = plan.get("rows");
    List<BlockManagerId> executors = executors();
    for (int index = 0; index < planned.get("tasks").size(); index++) {
      JsonNode task = planned.get("tasks").get(index);
      String[] before = Service.JSON.convertValue(task.get("before"), String[].class);
      String[] homes = homes(plan.get("affinities").get(index).asLong(), executors);
      partitions[index] = new RowFiles.Partition(partitions[index], homes, before, task.get("after").asText());
    }
    rows.know(planned.get("number").asInt(), end.json(), planned.get("known").asText());
    planned.get("obsolete").forEach(name -> rows.delete(name.asText()));
    return partitions;
  }

  /** Spark asks for it after the partitions of the same batch. */
  @Override
  public PartitionReaderFactory createReaderFactory() {
    ColumnarReaders python = PravegaScan.readerFactory(plan.get("tasks"));
    return rows == null ? python : new RowFiles.Readers(python, checkpoint, new SerializableConfiguration(conf()));
  }

  private static Configuration conf() {
    return SparkSession.active().sessionState().newHadoopConf();
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

  private static String[] homes(long affinity, List<BlockManagerId> executors) {
    if (executors.isEmpty()) {
      return new String[0];
    }
    BlockManagerId home = executors.get(Math.floorMod(affinity, executors.size()));
    return new String[] {"executor_" + home.host() + "_" + home.executorId()}; // as ExecutorCacheTaskLocation reads it
  }
}
