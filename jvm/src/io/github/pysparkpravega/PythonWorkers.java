package io.github.pysparkpravega;

import java.io.File;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.spark.JobArtifactSet;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.SparkFiles;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
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

  private PythonWorkers() {}

  /** @param version of the Python that made the function, such as 3.11: workers of another one refuse it. */
  static UserDefinedPythonDataSource source(String version) {
    return source(version, Map.of());
  }

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

  /** Returns the files that a Spark Connect session brought along, because its tasks may need some. */
  static Option<String> artifacts() {
    return JobArtifactSet.getCurrentJobArtifactState().map(state -> state.uuid());
  }

  /** Lets a Python on the driver import what tasks can import: plug-ins may come by --py-files. */
  static void addPackages(Map<String, String> environment) {
    Path files = Path.of(SparkFiles.getRootDirectory());
    List<String> paths = new ArrayList<>(List.of(files.toString()));
    packages().forEach(archive -> paths.add(files.resolve(archive).toString()));
    // Spark's script `pyspark` leaves an empty entry, which Python takes for the working directory.
    String before = environment.getOrDefault("PYTHONPATH", "");
    paths.addAll(0, Stream.of(before.split(File.pathSeparator)).filter(entry -> !entry.isEmpty()).toList());
    environment.put("PYTHONPATH", String.join(File.pathSeparator, paths));
  }

  /** Returns the archives of the application and the session from which tasks can import. */
  private static List<String> packages() {
    List<String> found = new ArrayList<>(CollectionConverters.asJava(session().artifactManager().getPythonIncludes()));
    Seq<String> files = SparkContext.getOrCreate().listFiles();
    for (String file : CollectionConverters.asJava(files)) {
      String name = file.substring(file.lastIndexOf('/') + 1);
      if (name.matches(".*\\.(zip|egg|jar)") && !found.contains(name)) {
        found.add(name);
      }
    }
    return found;
  }

  private static SparkSession session() {
    return SparkSession.active();
  }
}
