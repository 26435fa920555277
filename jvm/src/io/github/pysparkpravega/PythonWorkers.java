package io.github.pysparkpravega;

import org.apache.spark.JobArtifactSet;
import org.apache.spark.api.python.PythonUtils$;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import scala.Option;

/**
 * How Spark runs the functions that the service plans. Spark's own look-up of a Python data source starts a Python
 * process for every session and asks it for every package it can import; the service knows already what to run.
 */
final class PythonWorkers {
  private PythonWorkers() {}

  private static final class Holder {
    static final UserDefinedPythonDataSource SOURCE =
        new UserDefinedPythonDataSource(PythonUtils$.MODULE$.createPythonFunction(new byte[0]));
  }

  static UserDefinedPythonDataSource source() {
    return Holder.SOURCE;
  }

  /** The files that a Spark Connect session brought along, of which its tasks may need some. */
  static Option<String> artifacts() {
    return JobArtifactSet.getCurrentJobArtifactState().map(state -> state.uuid());
  }
}
