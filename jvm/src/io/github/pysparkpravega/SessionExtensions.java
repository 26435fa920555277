package io.github.pysparkpravega;

import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.util.ShutdownHookManager;
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
    hideFailuresOfShutdown(Thread.currentThread());
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

  /** At Ctrl-C while a shell starts, its thread would end with a stack, because what it still sets up is refused. */
  private static void hideFailuresOfShutdown(Thread thread) {
    Thread.UncaughtExceptionHandler usual = thread.getUncaughtExceptionHandler();
    thread.setUncaughtExceptionHandler((failed, error) -> {
      if (!ShutdownHookManager.inShutdown()) {
        usual.uncaughtException(failed, error);
      }
    });
  }

  /** Returns whether a session began with these extensions: one that got the jar later did not. */
  static boolean in(SparkSession session) {
    return CollectionConverters.asJava(session.sessionState().analyzer().postHocResolutionRules()).stream()
        .anyMatch(rule -> rule instanceof StatementChecks);
  }
}
