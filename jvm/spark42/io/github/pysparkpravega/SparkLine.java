package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.ViewDefinition;
import java.util.*;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.streaming.WriteToStream;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.execution.datasources.v2.ChangelogTable;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqBase;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadataBase;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/** The calls that differ between lines of Spark, as 4.2 and 4.3 have them. */
final class SparkLine {
  private static final String OF_DELTA = "mergeSchema";

  static void addLookupJoins(SparkSessionExtensions extensions) {
    extensions.injectPreCBORule(session -> new LookupJoins((SparkSession) session));
  }

  static Column[] columns(StructType schema) {
    return CatalogV2Util.structTypeToV2Columns(schema, false);
  }

  static Seq<Option<InputPartition>> partitions(InputPartition[] partitions) {
    List<Option<InputPartition>> all = Arrays.stream(partitions).map(Option::apply).toList();
    return CollectionConverters.asScala(all).toSeq();
  }

  /** Makes the runner of a function. `atOnce`: each batch is sent by itself, and does not wait until a buffer is full. */
  @SuppressWarnings("unchecked")
  static ArrowPythonRunner runner(MapInBatchEvaluatorFactory settings, StructType input, Map<String, SQLMetric> metrics,
      Option<String> artifacts, boolean atOnce) {
    return new ArrowPythonRunner(
        settings.org$apache$spark$sql$execution$python$MapInBatchEvaluatorFactory$$chainedFunc,
        settings.org$apache$spark$sql$execution$python$MapInBatchEvaluatorFactory$$pythonEvalType,
        new int[][] {{0}},
        input,
        settings.org$apache$spark$sql$execution$python$MapInBatchEvaluatorFactory$$sessionLocalTimeZone,
        settings.org$apache$spark$sql$execution$python$MapInBatchEvaluatorFactory$$largeVarTypes,
        settings.org$apache$spark$sql$execution$python$MapInBatchEvaluatorFactory$$pythonRunnerConf,
        metrics,
        artifacts,
        Option.empty()) {
      @Override
      public int bufferSize() {
        return atOnce ? 8 : super.bufferSize();
      }
    };
  }

  /** Returns the logged offsets of a micro-batch and their time: in some sources two batches have the same offsets. */
  static String readLog(StreamExecution query, long epoch) {
    OffsetSeqBase logged = query.offsetLog().get(epoch).get();
    return logged + " of " + logged.metadataOpt().map(OffsetSeqMetadataBase::batchTimestampMs).get();
  }

  /** Returns the watermark of a micro-batch in milliseconds since 1970; 0 before the first one. */
  static long readWatermark(StreamExecution query, long epoch) {
    return query.offsetLog().get(epoch).get().metadataOpt().map(OffsetSeqMetadataBase::batchWatermarkMs).get();
  }

  /** Checks the options of a stream of changes, if it is one. */
  static void checkChanges(StreamingRelationV2 read) {
    if (read.table() instanceof ChangelogTable table && table.changelog() instanceof PravegaChangelog changes) {
      changes.checkReadOptions(read.extraOptions());
    }
  }

  /** Leaves out of the streams of a query that starts the hidden columns it does not use: Spark adds all for one. */
  static LogicalPlan withHiddenColumns(LogicalPlan plan) {
    if (!(plan instanceof WriteToStream start)) {
      return plan;
    }
    Set<ExprId> used = new HashSet<>();
    plan.foreach(part -> addIds(used, part.references()));
    addIds(used, start.inputQuery().outputSet());
    return plan.transformDown(new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
      @Override
      public boolean isDefinedAt(LogicalPlan part) {
        return part instanceof StreamingRelationV2 read
            && (read.table() instanceof PravegaTable || read.table() instanceof PravegaSourceTable)
            && read.output().size() > read.table().columns().length;
      }

      @Override
      public LogicalPlan apply(LogicalPlan part) {
        StreamingRelationV2 read = (StreamingRelationV2) part;
        List<AttributeReference> columns = CollectionConverters.asJava(read.output());
        int shown = read.table().columns().length;
        List<AttributeReference> kept = new ArrayList<>(columns.subList(0, shown));
        columns.stream().skip(shown).filter(column -> used.contains(column.exprId())).forEach(kept::add);
        return read.copy(read.source(), read.sourceName(), read.table(), read.extraOptions(),
            CollectionConverters.asScala(kept).toSeq(), read.catalog(), read.identifier(), read.v1Relation(),
            read.sourceIdentifyingName());
      }
    });
  }

  private static BoxedUnit addIds(Set<ExprId> ids, AttributeSet attributes) {
    CollectionConverters.asJava(attributes.toSeq()).forEach(attribute -> ids.add(attribute.exprId()));
    return BoxedUnit.UNIT;
  }

  /** Takes away the option that Delta's extension adds to every INSERT WITH SCHEMA EVOLUTION, whatever its table. */
  static LogicalPlan withOwnOptions(LogicalPlan plan) {
    return plan instanceof AppendData write && write.withSchemaEvolution() && write.writeOptions().contains(OF_DELTA)
        && write.table() instanceof DataSourceV2Relation into && into.table() instanceof PravegaTable
        ? write.copy(write.table(), write.query(), write.writeOptions().removed(OF_DELTA), write.isByName(),
            write.withSchemaEvolution(), write.write(), write.analyzedQuery())
        : plan;
  }

  /** Returns none: catalogs have views. */
  static Optional<List<String>> newViewOfOlderSpark(LogicalPlan plan) {
    return Optional.empty();
  }

  /** The view that the service describes. */
  static Object view(ViewDefinition found) {
    return Views.of(found);
  }

  /** Returns the plan of an INSERT of a query's rows, by position. */
  static LogicalPlan append(DataSourceV2Relation table, LogicalPlan query) {
    return AppendData.byPosition(table, query, scala.collection.immutable.Map$.MODULE$.empty(), false);
  }
}
