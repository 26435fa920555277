package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;
import scala.collection.immutable.Map;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * Adds to Spark's error about a table that is not there which one may have been meant. Spark's own rules have tried to
 * find a table before this one sees its name.
 */
final class NearTables extends Rule<LogicalPlan> {
  private final SparkSession session;

  NearTables(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    plan.foreach(each -> {
      if (named(each) instanceof UnresolvedRelation missing) {
        NamedTable.of(session, CollectionConverters.asJava(missing.multipartIdentifier()))
            .ifPresent(table -> check(table, missing));
      }
      return BoxedUnit.UNIT;
    });
    return plan;
  }

  /** What a part of a plan names: itself, or the table that it writes, which is no part of its own. */
  private static Object named(LogicalPlan part) {
    return part instanceof InsertIntoStatement insert ? insert.table()
        : part instanceof V2WriteCommand write ? write.table() : part;
  }

  private static void check(NamedTable table, UnresolvedRelation missing) {
    JsonNode hint = table.catalog().service().call("hint_of_table", PravegaCatalog.arguments(table.ident()));
    if (!hint.asText().isEmpty()) {
      throw PravegaException.unchecked(error(missing, hint.asText()));
    }
  }

  private static AnalysisException error(UnresolvedRelation missing, String hint) {
    AnalysisException spark = new NoSuchTableException(missing.multipartIdentifier());
    Origin origin = missing.origin();
    String state = " SQLSTATE: " + spark.getSqlState();
    return spark.copy(spark.message().replace(state, "") + hint + state, origin.line(), origin.startPosition(),
        Option.empty(), spark.errorClass(), Map.from(CollectionConverters.asScala(spark.getMessageParameters())),
        origin.getQueryContext());
  }
}
