package io.github.pysparkpravega;

import java.util.Map;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedNamespace;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.*;
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
 * Answers commands that Spark does not hand to catalogs: ANALYZE TABLE, which has nothing to do because statistics are
 * always current, and others, which the service refuses in better words than Spark.
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

  TableCommands() {}

  /** Adds the strategy to a session. Spark asks a session's own strategies before its general ones. */
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
      catalog.loadNamespaceMetadata(CollectionConverters.asJava(namespace.namespace()).toArray(String[]::new));
      return planNothing();
    }
    // Statements that use a catalog as no other does get one of their own, which knows that.
    if (plan instanceof CreateTable && child instanceof ResolvedIdentifier name
        && name.catalog() instanceof PravegaCatalog catalog && !catalog.isOfCreateTable()) {
      return planInstead(replaceChild(plan, name.copy(catalog.forCreateTable(), name.identifier(), name.output())));
    }
    if (plan instanceof ShowTablesExtended && child instanceof ResolvedNamespace namespace
        && namespace.catalog() instanceof PravegaCatalog catalog && catalog.ofShowTableExtended() == null) {
      return planInstead(replaceChild(
          plan, namespace.copy(catalog.forShowTableExtended(), namespace.namespace(), namespace.metadata())));
    }
    if (plan instanceof DescribeRelation describe && describe.isExtended() && child instanceof ResolvedTable of
        && of.table() instanceof PravegaTable table && table.properties().containsKey("lake")
        && !table.properties().containsKey(PravegaTable.LAKE_STATE)) {
      return planInstead(replaceChild(
          plan, of.copy(of.catalog(), of.identifier(), table.ofDescribing(), of.outputAttributes())));
    }
    if (statement != null && child instanceof ResolvedTable table
        && table.catalog() instanceof PravegaCatalog catalog) {
      if (plan instanceof AnalyzeTable analyze && analyze.partitionSpec().isEmpty()) {
        return planNothing();
      }
      catalog.service().refuse(table.identifier(), statement);
    }
    return (Seq<SparkPlan>) NONE;
  }

  @SuppressWarnings("unchecked")
  private Seq<SparkPlan> planNothing() {
    return planInstead(new LocalRelation((Seq<Attribute>) NONE, (Seq<InternalRow>) NONE, false, Option.empty()));
  }

  @SuppressWarnings("unchecked")
  private Seq<SparkPlan> planInstead(LogicalPlan plan) {
    return new $colon$colon<>(planLater(plan), (List<SparkPlan>) NONE);
  }

  @SuppressWarnings("unchecked")
  private static LogicalPlan replaceChild(LogicalPlan plan, LogicalPlan child) {
    return plan.withNewChildren(new $colon$colon<>(child, (List<LogicalPlan>) NONE));
  }
}
