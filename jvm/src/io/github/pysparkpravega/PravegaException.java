package io.github.pysparkpravega;

import java.lang.reflect.Field;
import java.util.List;
import org.apache.spark.ErrorClassesJsonReader;
import org.apache.spark.ErrorInfo;
import org.apache.spark.QueryContext;
import org.apache.spark.SparkThrowableHelper$;
import org.apache.spark.sql.AnalysisException;
import scala.Option;
import scala.collection.immutable.Map.Map1;
import scala.jdk.javaapi.CollectionConverters;

/** An error of the catalog service or of a task, which every front end shows with its condition and SQLSTATE. */
final class PravegaException extends AnalysisException {
  private static final long serialVersionUID = 2L;
  private static final String TEMPLATE = "<message>";

  PravegaException(String condition, String sqlState, String message, Throwable cause) {
    super("[" + condition + "] " + message + " SQLSTATE: " + sqlState, Option.empty(), Option.empty(),
        Option.apply(cause), Option.apply(condition), new Map1<>("message", message), new QueryContext[0],
        Option.apply(sqlState), Option.apply(TEMPLATE));
    teach();
  }

  /** The sentence alone: the JDBC server and the logs show this, and the name of a Java class says nothing to users. */
  @Override
  public String toString() {
    return getMessage();
  }

  private Object readResolve() {
    teach();
    return this;
  }

  /** Adds the condition to those that Spark knows: PySpark's getMessage() looks it up there and nowhere else. */
  private void teach() {
    synchronized (PravegaException.class) {
      ErrorClassesJsonReader known = SparkThrowableHelper$.MODULE$.errorReader();
      if (known.isValidErrorClass(getCondition())) {
        return;
      }
      ErrorInfo info = new ErrorInfo(CollectionConverters.asScala(List.of(TEMPLATE)).toSeq(), Option.empty(),
          Option.apply(getSqlState()), Option.empty());
      try {
        Field conditions = ErrorClassesJsonReader.class.getDeclaredField("errorInfoMap");
        conditions.setAccessible(true);
        conditions.set(known, known.errorInfoMap().updated(getCondition(), info));
      } catch (ReflectiveOperationException e) {
        addSuppressed(e); // getMessage() of PySpark fails then; everything else works
      }
    }
  }

  static boolean is(Throwable error, String condition) {
    return error instanceof PravegaException pravega && pravega.getCondition().equals(condition);
  }

  /** Throws any error from a method that declares none: Spark's interfaces declare only some of its checked ones. */
  @SuppressWarnings("unchecked")
  static <E extends Throwable> RuntimeException unchecked(Throwable error) throws E {
    throw (E) error;
  }
}
