package io.github.pysparkpravega;

import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import org.apache.spark.sql.classic.SparkSession;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Joins every session whose class path has this jar, because Spark looks for it there. Statements on tables of Pravega
 * that Spark refuses in words of its own, or takes for something else, are answered. Other tables see nothing of it.
 */
public final class SessionExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit>
    implements SparkSessionExtensionsProvider {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectPostHocResolutionRule(session -> new NearTables((SparkSession) session));
    extensions.injectPostHocResolutionRule(session -> new StatementChecks((SparkSession) session));
    extensions.injectHintResolutionRule(session -> new QueryStartChecks());
    extensions.injectParser((session, parser) -> new StatementParser((SparkSession) session, parser));
    return BoxedUnit.UNIT;
  }

  /** Whether a session was begun with these extensions: one that got the jar later was not. */
  static boolean in(SparkSession session) {
    return CollectionConverters.asJava(session.sessionState().analyzer().postHocResolutionRules()).stream()
        .anyMatch(rule -> rule instanceof StatementChecks);
  }
}
