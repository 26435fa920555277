package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.ViewDefinition;
import java.util.*;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.CreateView;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeq;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/** The calls that differ between lines of Spark, as 4.1 has them. */
final class SparkLine {
  /** Adds nothing: the rule is written for later versions. */
  static void addLookupJoins(SparkSessionExtensions extensions) {}

  static Column[] columns(StructType schema) {
    return CatalogV2Util.structTypeToV2Columns(schema);
  }

  static Seq<Seq<InputPartition>> partitions(InputPartition[] partitions) {
    List<Seq<InputPartition>> all =
        Arrays.stream(partitions).map(one -> CollectionConverters.asScala(List.of(one)).toSeq()).toList();
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
        Option.empty(),
        Option.empty()) {
      @Override
      public int bufferSize() {
        return atOnce ? 8 : super.bufferSize();
      }
    };
  }

  /** Returns the logged offsets of a micro-batch and their time: in some sources two batches have the same offsets. */
  static String readLog(StreamExecution query, long epoch) {
    OffsetSeq logged = query.offsetLog().get(epoch).get();
    return logged + " of " + logged.metadata().map(OffsetSeqMetadata::batchTimestampMs).get();
  }

  /** Returns the watermark of a micro-batch in milliseconds since 1970; 0 before the first one. */
  static long readWatermark(StreamExecution query, long epoch) {
    return query.offsetLog().get(epoch).get().metadata().map(OffsetSeqMetadata::batchWatermarkMs).get();
  }

  /**
   * Makes streams read the hidden columns that a query uses. Spark 4.1 does not tell streams which columns it needs: it
   * takes those of the table, followed by all hidden ones if one of these is used.
   */
  static LogicalPlan withHiddenColumns(LogicalPlan plan) {
    return plan.transformDown(new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
      @Override
      public boolean isDefinedAt(LogicalPlan part) {
        return part instanceof StreamingRelationV2 read
            && (read.table() instanceof PravegaTable || read.table() instanceof PravegaSourceTable)
            && read.output().size() > read.table().columns().length
            && !read.extraOptions().containsKey(PravegaTable.WITH_HIDDEN_COLUMNS);
      }

      @Override
      public LogicalPlan apply(LogicalPlan part) {
        StreamingRelationV2 read = (StreamingRelationV2) part;
        HashMap<String, String> options = new HashMap<>(read.extraOptions().asCaseSensitiveMap());
        options.put(PravegaTable.WITH_HIDDEN_COLUMNS, "true");
        return read.copy(read.source(), read.sourceName(), read.table(), new CaseInsensitiveStringMap(options),
            read.output(), read.catalog(), read.identifier(), read.v1Relation());
      }
    });
  }

  /** Changes nothing: Spark 4.1 has no INSERT WITH SCHEMA EVOLUTION. */
  static LogicalPlan withOwnOptions(LogicalPlan plan) {
    return plan;
  }

  /** Does nothing: Spark 4.1 has no streams of changes. */
  static void checkChanges(StreamingRelationV2 read) {}

  /** Returns the view that a statement makes: Spark 4.1 has views only in its own catalog. */
  static Optional<List<String>> newViewOfOlderSpark(LogicalPlan plan) {
    return plan instanceof CreateView made && made.child() instanceof UnresolvedIdentifier name
        ? Optional.of(CollectionConverters.asJava(name.nameParts()))
        : Optional.empty();
  }

  /** Fails: the service is not asked for views. */
  static Object view(ViewDefinition found) {
    throw new IllegalStateException("Spark 4.1 loads no views from catalogs of tables");
  }

  /** Returns the plan of an INSERT of a query's rows, by position. */
  static LogicalPlan append(DataSourceV2Relation table, LogicalPlan query) {
    return AppendData.byPosition(table, query, scala.collection.immutable.Map$.MODULE$.empty());
  }
}
