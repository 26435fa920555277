package io.github.pysparkpravega;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Stands between Python and the session's own parser: Python looks at all methods of an object that it calls, and the
 * parser has some whose types Spark 4.2 lacks.
 */
public final class Scripts {
  private Scripts() {}

  public static LogicalPlan parse(SparkSession session, String text) throws ParseException {
    return session.sessionState().sqlParser().parsePlan(text);
  }

  /** Returns whether a plan reads a STREAM, even within a WITH. */
  public static boolean isStreaming(LogicalPlan plan) {
    List<QueryPlan<?>> parts = new ArrayList<>(CollectionConverters.asJava(plan.children()));
    parts.addAll(CollectionConverters.asJava(plan.innerChildren()));
    return plan.isStreaming() || parts.stream().anyMatch(part -> isStreaming((LogicalPlan) part));
  }
}
