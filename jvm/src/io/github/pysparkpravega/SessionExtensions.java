package io.github.pysparkpravega;

import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import org.apache.spark.sql.classic.SparkSession;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Joins every session whose class path has this jar, because Spark looks for it there. It answers statements about
 * tables of Pravega that Spark refuses in its own words, or takes for something else. Other tables are not affected.
 */
public final class SessionExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit>
    implements SparkSessionExtensionsProvider {
  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectPostHocResolutionRule(session -> new NearTables((SparkSession) session));
    extensions.injectPostHocResolutionRule(session -> new StatementChecks((SparkSession) session));
    extensions.injectHintResolutionRule(session -> new QueryStartChecks());
    SparkLine.addLookupJoins(extensions);
    extensions.injectPlannerStrategy(session -> new TableCommands());
    extensions.injectParser((session, parser) -> {
      RunningQueries.resume((SparkSession) session); // a session has its parser before its first statement
      return new StatementParser((SparkSession) session, parser);
    });
    return BoxedUnit.UNIT;
  }

  /** Returns whether a session began with these extensions: one that got the jar later did not. */
  static boolean in(SparkSession session) {
    return CollectionConverters.asJava(session.sessionState().analyzer().postHocResolutionRules()).stream()
        .anyMatch(rule -> rule instanceof StatementChecks);
  }
}
