package io.github.pysparkpravega;

import java.nio.file.Path;
import java.util.stream.Stream;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Finds the Python that runs the catalog service on the driver, and the one that runs tasks on executors. */
final class Interpreter {
  /**
   * Returns that of the catalog's conf, else the driver's Python unless it is jupyter or ipython, else that of tasks.
   */
  static String ofService(CaseInsensitiveStringMap options) {
    SparkConf conf = SparkEnv.get().conf();
    Stream<String> driver = Stream.of(conf.get("spark.pyspark.driver.python", ""), environment("PYSPARK_DRIVER_PYTHON"))
        .filter(python -> Path.of(python).getFileName().toString().matches("(python|pypy)[0-9.]*(\\.exe)?"));
    return first(Stream.concat(
        Stream.of(options.getOrDefault("python", "")), Stream.concat(driver, Stream.of(ofTasks(conf)))));
  }

  static String ofTasks(SparkConf conf) {
    return first(Stream.of(conf.get("spark.pyspark.python", ""), environment("PYSPARK_PYTHON"), "python3"));
  }

  private static String environment(String name) {
    return System.getenv().getOrDefault(name, "");
  }

  private static String first(Stream<String> candidates) {
    return candidates.filter(python -> !python.isBlank()).findFirst().orElseThrow();
  }
}
