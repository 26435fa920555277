package io.github.pysparkpravega;

import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.api.python.PythonException;

/** The errors of tasks: those that Python raised, without Spark's around them. */
final class TaskErrors {
  /** The form in which `user_errors.py` lets an error leave a worker. */
  private static final Pattern RAISED = Pattern.compile("\\[(PRAVEGA_\\w+)] (.*)\nSQLSTATE: (\\w{5})", Pattern.DOTALL);

  static RuntimeException unwrap(PythonException error) {
    Matcher raised = RAISED.matcher(error.getMessage());
    return PravegaException.unchecked(raised.find()
        ? new PravegaException(raised.group(1), raised.group(3), raised.group(2), null)
        : error);
  }
}
