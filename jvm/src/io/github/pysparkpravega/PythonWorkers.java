package io.github.pysparkpravega;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.*;
import org.apache.spark.JobArtifactSet;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.util.Utils;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Runs in tasks the functions that the service plans, with the Python, the environment and the packages that PySpark
 * gives to all Python tasks of this application. Spark's own look-up of a Python data source takes those of the driver,
 * starts a Python for every session, and searches every package that it can import. The service already knows what to
 * run.
 */
final class PythonWorkers {
  private static final String ENVIRONMENT = "spark.executorEnv.";

  /** @param version of the Python that made the function, such as 3.11: workers of another one refuse it. */
  static UserDefinedPythonDataSource source(String version, Map<String, String> more) {
    SparkConf conf = SparkEnv.get().conf();
    Map<String, String> environment = new HashMap<>();
    environment.put("PYTHONHASHSEED", System.getenv().getOrDefault("PYTHONHASHSEED", "0")); // as PySpark has it
    for (Tuple2<String, String> variable : conf.getAllWithPrefix(ENVIRONMENT)) {
      environment.put(variable._1(), variable._2());
    }
    environment.putAll(more);
    return new UserDefinedPythonDataSource(new SimplePythonFunction(
        new byte[0], environment, packages(), Interpreter.ofTasks(conf), version, new ArrayList<>(), null));
  }

  static CustomMetric[] metrics() {
    return new UserDefinedPythonDataSource(null).createPythonMetrics();
  }

  /** Returns the session if it brought files along, because tasks may need some: it then has Python workers of its own. */
  static Option<String> artifacts() {
    return JobArtifactSet.getCurrentJobArtifactState().map(state -> state.uuid())
        .filter(any -> Files.exists(SparkSession.active().artifactManager().artifactPath()));
  }

  /** Spark's script `pyspark` leaves an empty entry, which Python takes for the working directory. */
  static String dropEmptyEntries(String path) {
    return path.replaceAll("^:+|:+$|(?<=:):+", "");
  }

  /**
   * Returns where the service finds plug-ins of --py-files. Neither ADD FILE nor a session adds to it: one service has
   * the rights of all sessions. Modules get a directory of their own, because others may write to that of a file.
   */
  static List<String> ofStart() throws IOException {
    List<String> found = new ArrayList<>();
    String files = SparkEnv.get().conf().get("spark.submit.pyFiles", "");
    for (String file : files.isEmpty() ? new String[0] : files.split(",")) {
      Path path = Path.of(Utils.resolveURI(file).getPath());
      if (file.endsWith(".py")) {
        Path modules = Utils.createTempDir(System.getProperty("java.io.tmpdir"), "pravega").toPath();
        path = Files.createSymbolicLink(modules.resolve(path.getFileName()), path).getParent();
      }
      found.add(path.toString());
    }
    return found;
  }

  /** Returns the archives of the application and the session from which tasks can import. */
  private static List<String> packages() {
    List<String> found = new ArrayList<>(
        CollectionConverters.asJava(SparkSession.active().artifactManager().getPythonIncludes()));
    Seq<String> files = SparkContext.getOrCreate().listFiles();
    for (String file : CollectionConverters.asJava(files)) {
      String name = file.substring(file.lastIndexOf('/') + 1);
      if (name.matches(".*\\.(zip|egg|jar)") && !found.contains(name)) {
        found.add(name);
      }
    }
    return found;
  }
}
