package io.github.pysparkpravega;

import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;

/**
 * What Python asks for instead of the session's own parser: it looks at all methods of what it calls, and the parser has
 * some whose types Spark 4.2 lacks.
 */
public final class Scripts {
  private Scripts() {}

  public static LogicalPlan parse(SparkSession session, String text) throws ParseException {
    return session.sessionState().sqlParser().parsePlan(text);
  }
}
