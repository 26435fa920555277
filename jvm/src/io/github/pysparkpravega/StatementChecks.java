package io.github.pysparkpravega;

import java.util.Arrays;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.streaming.WriteToStream;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * Checks analyzed statements for mistakes that Spark finds too late, explains badly, or takes for something else. It is
 * a rule that changes only which hidden columns streams read, and takes away an option that Delta adds. It is not one of
 * Spark's check rules: to their errors Spark adds the plan, with all options of its reads.
 */
final class StatementChecks extends Rule<LogicalPlan> {
  /** Set by `pyspark-pravega run`, which starts an INSERT that reads a stream as a streaming query. */
  static final String STREAMING = "pravega.streaming-statements";
  private static final Pattern CHANGES = Pattern.compile("(?is).*?(\\bAS\\s+)?\\bCHANGES\\s*");
  private static final Pattern USED = Pattern.compile("(?i)\\bCHANGES`?\\s*\\.");

  private final SparkSession session;
  /** Spark loads a table again for the options of a query that change its columns, from 4.3 on. */
  private final boolean isBlindToOptions;

  StatementChecks(SparkSession session) {
    this.session = session;
    this.isBlindToOptions = SparkVersion.isOlder(session.version(), "4.3");
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (plan instanceof WriteToStream start && start.sink() instanceof PravegaTable table) {
      QueryStartChecks.check(session, start, table);
    } else if (plan instanceof CreateTable made) {
      checkNewTable(made.name(), made.tableSpec());
    } else if (plan instanceof CreateTableAsSelect made) {
      checkNewTable(made.name(), made.tableSpec());
      if (made.query().isStreaming() && made.name() instanceof ResolvedIdentifier name
          && name.catalog() instanceof PravegaCatalog catalog) {
        catalog.service().refuse(name.identifier(), "CREATE TABLE ... AS SELECT FROM STREAM");
      }
    } else if (plan instanceof V2WriteCommand write && write.query().isStreaming() && !areStreamsWritten()
        && write.table() instanceof DataSourceV2Relation into && into.table() instanceof PravegaTable table) {
      table.refuse("INSERT ... FROM STREAM");
    } else if (plan instanceof InsertIntoStatement write && write.table() instanceof StreamingRelationV2 into
        && into.table() instanceof PravegaTable table) {
      // Spark 4.1.0 and 4.2.0 take the table for the stream of the same name, and then find an internal error.
      table.refuse("INSERT ... FROM STREAM");
    }
    if (plan.isStreaming() && !(plan instanceof Command) && !(plan instanceof WriteToStream) && Callers.isSqlClient()) {
      refuseSelect(plan);
    }
    plan.foreachWithSubqueries(part -> {
      if (part instanceof StreamingRelationV2 read) {
        checkReadOptions(read);
      } else if (isBlindToOptions && part instanceof DataSourceV2Relation read
          && read.table() instanceof PravegaTable table) {
        table.checkColumnOptions(read.options());
      } else if (part instanceof SubqueryAlias alias && alias.alias().equalsIgnoreCase("changes")) {
        checkChanges(alias);
      }
      return BoxedUnit.UNIT;
    });
    return SparkLine.withHiddenColumns(SparkLine.withOwnOptions(plan));
  }

  private void checkReadOptions(StreamingRelationV2 read) {
    if (read.table() instanceof PravegaTable table) {
      CaseInsensitiveStringMap options = PravegaTable.dropOwnOptions(read.extraOptions());
      if (isBlindToOptions) {
        table.checkColumnOptions(options);
      }
      table.checkReadOptions(options);
    } else {
      SparkLine.checkChanges(read);
    }
  }

  /** Refuses a SELECT that a shell or a client of JDBC would run at once: Spark's own words name neither way out. */
  private static void refuseSelect(LogicalPlan plan) {
    plan.foreach(part -> {
      if (part instanceof StreamingRelationV2 read && read.table() instanceof PravegaTable table) {
        table.refuse("SELECT ... FROM STREAM");
      }
      return BoxedUnit.UNIT;
    });
  }

  private boolean areStreamsWritten() {
    return "true".equals(session.sparkContext().getLocalProperty(STREAMING));
  }

  /** Refuses a table in Spark's own catalog, which would have no options to find its stream by. */
  private static void checkNewTable(LogicalPlan name, TableSpecBase spec) {
    if (name instanceof ResolvedIdentifier made && CatalogV2Util.isSessionCatalog(made.catalog())
        && spec.provider().exists(provider -> provider.equalsIgnoreCase("pravega"))) {
      PravegaSourceTable.refuseCreation(made.identifier().name());
    }
  }

  /** Refuses CHANGES without a range, which Spark takes for an alias, unless it is used as one or written with AS. */
  private void checkChanges(SubqueryAlias alias) {
    Origin origin = alias.origin();
    boolean written = origin.sqlText().isDefined() && origin.objectType().isEmpty();
    if (!written || !(alias.child() instanceof SubqueryAlias named)) {
      return;
    }
    String text = origin.sqlText().get();
    Matcher ending = CHANGES.matcher(
        text.substring((Integer) origin.startIndex().get(), (Integer) origin.stopIndex().get() + 1));
    String[] qualifier = CollectionConverters.asJava(named.identifier().qualifier()).toArray(String[]::new);
    if (qualifier.length > 1 && ending.matches() && ending.group(1) == null && !USED.matcher(text).find()
        && NamedTable.isPravega(session, qualifier[0])) {
      String[] namespace = Arrays.copyOfRange(qualifier, 1, qualifier.length);
      CatalogPlugin catalog = session.sessionState().catalogManager().catalog(qualifier[0]);
      ((PravegaCatalog) catalog).service().refuse(Identifier.of(namespace, named.alias()), "CHANGES without FROM");
    }
  }
}
