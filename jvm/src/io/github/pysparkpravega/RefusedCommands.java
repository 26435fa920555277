package io.github.pysparkpravega;

import java.util.Map;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import scala.collection.immutable.List$;
import scala.collection.immutable.Seq;

/** Has commands that Spark offers to no catalog refused with the service's sentence, in place of Spark's. */
final class RefusedCommands extends SparkStrategy {
  private static final Map<String, String> STATEMENTS = Map.ofEntries(
      Map.entry("AnalyzeTable", "ANALYZE TABLE"),
      Map.entry("AnalyzeColumn", "ANALYZE TABLE ... FOR COLUMNS"),
      Map.entry("LoadData", "LOAD DATA"),
      Map.entry("RepairTable", "MSCK REPAIR TABLE"),
      Map.entry("RecoverPartitions", "ALTER TABLE ... RECOVER PARTITIONS"),
      Map.entry("SetTableSerDeProperties", "ALTER TABLE ... SET SERDE"),
      Map.entry("CreateIndex", "CREATE INDEX"),
      Map.entry("DropIndex", "DROP INDEX"),
      Map.entry("DescribeRelationJsonCommand", "DESCRIBE TABLE ... AS JSON"));

  private RefusedCommands() {}

  /** Spark asks the session's own strategies before those that it has for all catalogs. */
  @SuppressWarnings("unchecked")
  static void in(SparkSession session) {
    ExperimentalMethods methods = session.experimental();
    synchronized (methods) {
      if (!methods.extraStrategies().exists(strategy -> strategy instanceof RefusedCommands)) {
        methods.extraStrategies_$eq(methods.extraStrategies().prepended(new RefusedCommands()).toSeq());
      }
    }
  }

  @Override
  @SuppressWarnings("unchecked")
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    String statement = STATEMENTS.get(plan.getClass().getSimpleName());
    if (statement != null && plan.children().headOption().getOrElse(() -> null) instanceof ResolvedTable table
        && table.catalog() instanceof PravegaCatalog catalog) {
      catalog.service().refuse(table.identifier(), statement);
    }
    return (Seq<SparkPlan>) (Object) List$.MODULE$.empty();
  }
}
