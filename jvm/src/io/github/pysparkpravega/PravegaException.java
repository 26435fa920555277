package io.github.pysparkpravega;

import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import scala.Option;
import scala.collection.immutable.Map$;

/** An error of the catalog service, which every front end shows as a Spark analysis error with its condition. */
final class PravegaException extends AnalysisException {
  private static final long serialVersionUID = 1L;

  private final String condition;

  PravegaException(String condition, String message, Throwable cause) {
    super("[" + condition + "] " + message, Option.empty(), Option.empty(), Option.apply(cause),
        Option.apply(condition), Map$.MODULE$.empty(), new QueryContext[0]);
    this.condition = condition;
  }

  /** Data source errors, as Spark calls them; the class XX is that of defects, which shells show with a stack trace. */
  @Override
  public String getSqlState() {
    return condition.equals("PRAVEGA_INTERNAL_ERROR") ? "XX000" : "KD000";
  }

  static boolean is(Throwable error, String condition) {
    return error instanceof PravegaException pravega && pravega.condition.equals(condition);
  }

  /** Throws any error from a method that declares none: Spark's interfaces declare only some of its checked ones. */
  @SuppressWarnings("unchecked")
  static <E extends Throwable> RuntimeException unchecked(Throwable error) throws E {
    throw (E) error;
  }
}
