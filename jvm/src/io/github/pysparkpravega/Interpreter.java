package io.github.pysparkpravega;

import java.util.stream.Stream;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Which Python runs the catalog service: the catalog's conf, then what Spark uses for the driver and its workers. */
final class Interpreter {
  private Interpreter() {}

  static String choose(CaseInsensitiveStringMap options) {
    return Stream.of(
            options.get("python"),
            spark("spark.pyspark.python"),
            System.getenv("PYSPARK_PYTHON"),
            "python3")
        .filter(candidate -> candidate != null && !candidate.isBlank())
        .findFirst()
        .orElseThrow();
  }

  private static String spark(String key) {
    SparkEnv env = SparkEnv.get();
    return env == null ? null : env.conf().get(key, null);
  }
}
