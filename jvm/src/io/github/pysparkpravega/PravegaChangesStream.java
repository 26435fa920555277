package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.*;
import io.github.pysparkpravega.Requests.*;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.storage.BlockManager;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.util.SerializableConfiguration;
import scala.jdk.javaapi.CollectionConverters;

/** A stream of changes: the service knows where it begins and ends, and plans what lies in between. */
final class PravegaChangesStream implements MicroBatchStream, SupportsTriggerAvailableNow {
  private final PravegaTable table;
  private final StructType columns;
  private final Map<String, String> options;
  private final String checkpoint;
  private final RowFiles rows;
  private PlannedRead plan;
  private boolean availableNow;
  private String last;

  PravegaChangesStream(PravegaTable table, StructType columns, Map<String, String> options, String checkpoint) {
    this.table = table;
    this.columns = columns;
    this.options = options;
    this.checkpoint = checkpoint;
    this.rows = table.hasRowKey() ? new RowFiles(folder(), conf()).withFolder() : null;
  }

  private String folder() {
    return new Path(checkpoint, "rows").toString();
  }

  /** Returns the name of the source in a query's progress. */
  @Override
  public String toString() {
    return table.name();
  }

  @Override
  public Offset initialOffset() {
    return new JsonOffset(table.service().call(new StartOfChanges(table.handle(), options)));
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("Spark calls latestOffset(Offset, ReadLimit) instead");
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return ReadLimits.of(table.service().call(new LimitsOfChanges(table.handle(), options)));
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
    return new JsonOffset(end(start, ReadLimits.describe(limit)));
  }

  private String end(Offset start, @OrNull Limits limits) {
    return table.service().call(new EndOfChanges(table.handle(), options, start.json(), last, limits, checkpoint));
  }

  @Override
  public Offset deserializeOffset(String json) {
    return new JsonOffset(json);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    List<String> names = rows == null ? List.of() : rows.names();
    String known = rows == null ? null : rows.known(names, start.json());
    int retain = SparkSession.active().sessionState().conf().minBatchesToRetain();
    Function<List<String>, PlannedRead> between = found -> table.service().call(new PlanNewChanges(table.handle(),
        columns, options, start.json(), end.json(), checkpoint, known, names, retain, found));
    plan = PravegaScan.complete(between.apply(List.of()), between);
    InputPartition[] partitions = PravegaScan.partitions(plan.tasks());
    if (rows == null) {
      return partitions;
    }
    PlannedRows planned = plan.rows();
    List<BlockManagerId> executors = executors();
    // Without events there is one partition, which reads nothing and has no files.
    for (int index = 0; index < planned.tasks().size(); index++) {
      TaskFiles task = planned.tasks().get(index);
      String[] homes = homes(plan.affinities().get(index), executors);
      partitions[index] = new RowFiles.Partition(partitions[index], homes, task.before(), task.after());
    }
    rows.know(planned.number(), end.json(), planned.known());
    planned.obsolete().forEach(rows::delete);
    return partitions;
  }

  /** Makes the readers of the last planned batch: Spark calls this after it has planned the partitions. */
  @Override
  public PartitionReaderFactory createReaderFactory() {
    ColumnarReaders python = PravegaScan.readerFactory(plan.tasks());
    return rows == null ? python : new RowFiles.Readers(python, folder(), true, new SerializableConfiguration(conf()));
  }

  private static Configuration conf() {
    return SparkSession.active().sessionState().newHadoopConf();
  }

  @Override
  public void commit(Offset end) {}

  @Override
  public void stop() {}

  /**
   * Returns executors in a stable order, so that a partition gets to the executor that knows the rows of its segments.
   */
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
