package io.github.pysparkpravega;

import java.util.Arrays;

/** Versions of Spark, compared by their numbers: 4.10 is newer than 4.3. */
final class SparkVersion {
  /** Returns whether a version such as 4.2.1 is older than the line that `since` names, such as 4.3. */
  static boolean isOlder(String version, String since) {
    int[] parts = numbers(since);
    return Arrays.compare(numbers(version), 0, parts.length, parts, 0, parts.length) < 0;
  }

  private static int[] numbers(String version) {
    return Arrays.stream(version.split("[^0-9]+")).mapToInt(Integer::parseInt).toArray();
  }
}
