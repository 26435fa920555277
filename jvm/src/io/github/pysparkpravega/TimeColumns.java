package io.github.pysparkpravega;

import java.util.function.Consumer;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.TimeType;

/**
 * Columns of type TIME, which Spark has only if a conf says so. Without it, Spark itself refuses to declare one, but not to
 * read or write one, and most of its functions fail.
 */
final class TimeColumns {
  private static final String ENABLED = "spark.sql.timeType.enabled";

  private TimeColumns() {}

  /** Hands a statement to be refused on, if a type has TIME in it and this session does not have that type. */
  static void check(DataType type, Consumer<String> refuse) {
    if (type.existsRecursively(part -> part instanceof TimeType)
        && !Boolean.parseBoolean(SQLConf.get().getConfString(ENABLED, "false"))) {
      refuse.accept("A column of type TIME");
    }
  }
}
