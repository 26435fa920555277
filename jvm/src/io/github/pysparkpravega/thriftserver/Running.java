package io.github.pysparkpravega.thriftserver;

import org.apache.hive.service.cli.HiveSQLException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.hive.thriftserver.SparkOperation;
import scala.runtime.BoxedUnit;

/** Runs the work of operations as Spark does: in the active session, with its jars. */
final class Running {
  private Running() {}

  /** Work that may raise Hive's exception, which the methods of Spark's operations do not declare. */
  interface Work {
    void run() throws HiveSQLException;
  }

  static void run(SparkOperation operation, Work work) {
    operation.withClassLoader(loader -> unit(work));
  }

  static void run(SparkSession session, Work work) {
    Thread.currentThread().setContextClassLoader(session.sharedState().jarClassLoader());
    session.withActive(() -> unit(work));
  }

  private static BoxedUnit unit(Work work) {
    try {
      work.run();
      return BoxedUnit.UNIT;
    } catch (HiveSQLException e) {
      throw Running.<RuntimeException>unchecked(e);
    }
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E unchecked(Throwable error) throws E {
    throw (E) error;
  }
}
