package io.github.pysparkpravega;

import java.util.Map;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.ResolvedNamespace;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.AnalyzeTable;
import org.apache.spark.sql.catalyst.plans.logical.AnalyzeTables;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.Option;
import scala.collection.immutable.$colon$colon;
import scala.collection.immutable.List;
import scala.collection.immutable.List$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Answers commands that Spark offers to no catalog: ANALYZE TABLE, which has nothing to do because statistics are always
 * those of now, and others with the service's refusal in place of Spark's.
 */
final class TableCommands extends SparkStrategy {
  private static final Map<String, String> STATEMENTS = Map.ofEntries(
      Map.entry("AnalyzeTable", "ANALYZE TABLE ... PARTITION"),
      Map.entry("AnalyzeColumn", "ANALYZE TABLE ... FOR COLUMNS"),
      Map.entry("LoadData", "LOAD DATA"),
      Map.entry("RepairTable", "MSCK REPAIR TABLE"),
      Map.entry("RecoverPartitions", "ALTER TABLE ... RECOVER PARTITIONS"),
      Map.entry("SetTableSerDeProperties", "ALTER TABLE ... SET SERDE"),
      Map.entry("CreateIndex", "CREATE INDEX"),
      Map.entry("DropIndex", "DROP INDEX"),
      Map.entry("DescribeRelationJsonCommand", "DESCRIBE TABLE ... AS JSON"));

  private static final Object NONE = List$.MODULE$.empty();

  private TableCommands() {}

  /** Spark asks the session's own strategies before those that it has for all catalogs. */
  @SuppressWarnings("unchecked")
  static void in(SparkSession session) {
    ExperimentalMethods methods = session.experimental();
    synchronized (methods) {
      if (!methods.extraStrategies().exists(strategy -> strategy instanceof TableCommands)) {
        methods.extraStrategies_$eq(methods.extraStrategies().prepended(new TableCommands()).toSeq());
      }
    }
  }

  @Override
  @SuppressWarnings("unchecked")
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    LogicalPlan child = plan.children().headOption().getOrElse(() -> null);
    String statement = STATEMENTS.get(plan.getClass().getSimpleName());
    if (plan instanceof AnalyzeTables && child instanceof ResolvedNamespace namespace
        && namespace.catalog() instanceof PravegaCatalog catalog) {
      try {
        catalog.loadNamespaceMetadata(CollectionConverters.asJava(namespace.namespace()).toArray(String[]::new));
      } catch (NoSuchNamespaceException e) {
        throw PravegaException.unchecked(e);
      }
      return nothing();
    }
    if (statement != null && child instanceof ResolvedTable table
        && table.catalog() instanceof PravegaCatalog catalog) {
      if (plan instanceof AnalyzeTable analyze && analyze.partitionSpec().isEmpty()) {
        return nothing();
      }
      catalog.service().refuse(table.identifier(), statement);
    }
    return (Seq<SparkPlan>) NONE;
  }

  @SuppressWarnings("unchecked")
  private Seq<SparkPlan> nothing() {
    LogicalPlan nothing = new LocalRelation((Seq<Attribute>) NONE, (Seq<InternalRow>) NONE, false, Option.empty());
    return new $colon$colon<>(planLater(nothing), (List<SparkPlan>) NONE);
  }
}
