package io.github.pysparkpravega;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2;
import org.apache.spark.sql.execution.streaming.sources.MicroBatchWrite;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Shows OpenLineage's agent the reads and the write of a micro-batch as those of a batch, which it understands: of
 * streams it knows its own list of sources and sinks alone. The agent finds the methods by their names, and asks for
 * inputs and outputs alike. It takes scans for inputs and an INSERT for an output.
 */
public final class LineageOfStreams {
  /** Returns whether a plan reads or writes a table of Pravega as a micro-batch does. */
  public boolean isDefinedAt(Object plan) {
    return plan instanceof LogicalPlan known && !inBatch(known).isEmpty();
  }

  /** Returns the parts of a batch that the agent should look at as well. */
  public Map<String, Object> apply(Object plan, String event) {
    return plan instanceof LogicalPlan known
        ? Map.of("datasets", List.of(), "delegateNodes", inBatch(known))
        : Map.of();
  }

  @SuppressWarnings("deprecation") // Spark itself has no other node for the write of a micro-batch
  private static List<LogicalPlan> inBatch(LogicalPlan plan) {
    List<LogicalPlan> parts = new ArrayList<>();
    if (plan instanceof WriteToDataSourceV2 write && write.batchWrite() instanceof MicroBatchWrite batch
        && batch.writeSupport() instanceof PravegaStreamingWrite ours) {
      DataSourceV2Relation table = DataSourceV2Relation.create(ours.table(), Option.empty(), Option.empty());
      parts.add(SparkLine.append(table, table)); // its rows do not matter here
    }
    for (LogicalPlan leaf : CollectionConverters.asJava(plan.collectLeaves())) {
      if (leaf instanceof StreamingDataSourceV2ScanRelation read && isOurs(read.relation().table())) {
        parts.add(scan(read));
      }
    }
    return parts;
  }

  /** Makes the scan of a batch. Spark's versions have the same parameters, and newer ones more. */
  private static LogicalPlan scan(StreamingDataSourceV2ScanRelation read) {
    DataSourceV2Relation table = DataSourceV2Relation.create(
        read.relation().table(), read.relation().catalog(), read.relation().identifier());
    Object[] arguments = {
        table, read.scan(), read.output(), Option.empty(), Option.empty(), Nil$.MODULE$, false};
    var constructor = DataSourceV2ScanRelation.class.getConstructors()[0];
    try {
      return (LogicalPlan) constructor.newInstance(
          List.of(arguments).subList(0, constructor.getParameterCount()).toArray());
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  private static boolean isOurs(Table table) {
    return table instanceof PravegaTable || table instanceof PravegaSourceTable;
  }
}
