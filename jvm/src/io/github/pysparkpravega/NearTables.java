package io.github.pysparkpravega;

import io.github.pysparkpravega.Requests.HintOfTable;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTable;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableOrView;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/**
 * Adds to Spark's error about a missing table which one may have been meant. It looks at the names for which Spark's
 * rules have found no table.
 */
final class NearTables extends Rule<LogicalPlan> {
  private static final String CONDITION = "TABLE_OR_VIEW_NOT_FOUND";

  private final SparkSession session;

  NearTables(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    // Within a view, names are those of the catalog in which it was made.
    if (AnalysisContext.get().catalogAndNamespace().isEmpty()) {
      plan.foreach(part -> {
        Seq<String> missing = findMissing(part);
        if (missing != null) {
          NamedTable.of(session, CollectionConverters.asJava(missing)).ifPresent(table -> check(table, plan));
        }
        return BoxedUnit.UNIT;
      });
    }
    return plan;
  }

  /** Returns the name that a part of a plan reads or writes if no table of this name was found; else null. */
  private static Seq<String> findMissing(Object part) {
    if (part instanceof UnresolvedRelation read) {
      return read.multipartIdentifier();
    } else if (part instanceof UnresolvedTableOrView named) {
      return named.multipartIdentifier();
    } else if (part instanceof UnresolvedTable named) {
      return named.multipartIdentifier();
    } else if (part instanceof RelationTimeTravel read) {
      return findMissing(read.relation());
    } else if (part instanceof InsertIntoStatement insert) {
      return findMissing(insert.table());
    }
    return part instanceof V2WriteCommand write ? findMissing(write.table()) : null;
  }

  private void check(NamedTable table, LogicalPlan plan) {
    String hint = hint(table);
    if (!hint.isEmpty()) {
      try {
        session.sessionState().analyzer().checkAnalysis(plan);
      } catch (Exception e) { // Spark checks the plan next, and raises any other error itself
        if (e instanceof AnalysisException known && CONDITION.equals(known.getCondition())) {
          throw PravegaException.unchecked(with(hint, known));
        }
      }
    }
  }

  private static String hint(NamedTable table) {
    try {
      return table.catalog().service().call(new HintOfTable(table.ident().namespace(), table.ident().name()));
    } catch (Exception e) {
      if (e instanceof PravegaException) {
        return ""; // a service that cannot answer takes nothing away from Spark's error
      }
      throw e;
    }
  }

  private static AnalysisException with(String hint, AnalysisException known) {
    String state = " SQLSTATE: " + known.getSqlState();
    return known.copy(known.message().replace(state, "") + hint + state, known.line(), known.startPosition(),
        Option.empty(), known.errorClass(), known.messageParameters(), known.context());
  }
}
