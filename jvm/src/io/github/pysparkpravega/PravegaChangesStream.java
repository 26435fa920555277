package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.*;
import io.github.pysparkpravega.Requests.*;
import java.util.*;
import java.util.function.Function;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.storage.BlockManager;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.util.SerializableConfiguration;
import scala.jdk.javaapi.CollectionConverters;

/** The changes of a table as a stream. Of changes of rows, the checkpoint has the rows before them. */
final class PravegaChangesStream extends PravegaStream {
  private final RowFiles rows;

  PravegaChangesStream(PravegaTable table, StructType columns, Map<String, String> options, String checkpoint) {
    super(table, columns, options, checkpoint);
    this.rows = table.hasRowKey() ? new RowFiles(folder(), PravegaScan.conf()).withFolder() : null;
  }

  private String folder() {
    return new Path(query.checkpoint(), "rows").toString();
  }

  @Override
  PlannedRead planBetween(Offset start, Offset end) {
    List<String> names = rows == null ? List.of() : rows.names();
    String known = rows == null ? null : rows.known(names, start.json());
    int retain = SparkSession.active().sessionState().conf().minBatchesToRetain();
    KeptRows kept = new KeptRows(known, names, retain);
    Function<List<String>, PlannedRead> between =
        found -> ask(new PlanMicroBatch(query, new BatchRange(start.json(), end.json(), kept, found)));
    return PravegaScan.complete(between.apply(List.of()), between);
  }

  /** Returns whether its tasks write no states of rows: tasks of two scans would write the same files. */
  @Override
  boolean isRepeatable() {
    return rows == null;
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    PlannedRead plan = plan(start, end);
    InputPartition[] partitions = PravegaScan.partitions(plan.tasks());
    if (rows == null) {
      return partitions;
    }
    PlannedRows planned = plan.rows();
    List<BlockManagerId> executors = executors();
    // Without events there is one partition, which reads nothing and has no files.
    for (int index = 0; index < planned.tasks().size(); index++) {
      String[] homes = homes(plan.affinities().get(index), executors);
      partitions[index] = new RowFiles.Partition(partitions[index], homes, planned.tasks().get(index));
    }
    rows.know(planned.number(), end.json(), planned.known());
    planned.obsolete().forEach(rows::delete);
    return partitions;
  }

  /** Makes the readers of the last planned batch: Spark calls this after it has planned the partitions. */
  @Override
  public PartitionReaderFactory createReaderFactory() {
    ColumnarReaders python = PravegaScan.readerFactory(plan.tasks(), null);
    return rows == null ? python
        : new RowFiles.Readers(python, folder(), true, new SerializableConfiguration(PravegaScan.conf()));
  }

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
