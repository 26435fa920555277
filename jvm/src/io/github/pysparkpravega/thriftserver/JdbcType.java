package io.github.pysparkpravega.thriftserver;

import java.sql.Types;
import java.util.Map;
import org.apache.spark.sql.types.CharType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimeType;
import org.apache.spark.sql.types.VarcharType;

/** A type as JDBC describes it: java.sql.Types, characters or digits, digits behind the point, base of the digits. */
record JdbcType(int number, Integer size, Integer digits, Integer radix) {
  private static final JdbcType OTHER = new JdbcType(Types.OTHER, null, null, null);
  private static final Map<String, JdbcType> BY_NAME = Map.ofEntries(
      Map.entry("void", new JdbcType(Types.NULL, null, null, null)),
      Map.entry("boolean", new JdbcType(Types.BOOLEAN, 1, null, null)),
      Map.entry("byte", new JdbcType(Types.TINYINT, 3, 0, 10)),
      Map.entry("short", new JdbcType(Types.SMALLINT, 5, 0, 10)),
      Map.entry("integer", new JdbcType(Types.INTEGER, 10, 0, 10)),
      Map.entry("long", new JdbcType(Types.BIGINT, 19, 0, 10)),
      Map.entry("float", new JdbcType(Types.FLOAT, 7, 7, 10)),
      Map.entry("double", new JdbcType(Types.DOUBLE, 15, 15, 10)),
      Map.entry("binary", new JdbcType(Types.BINARY, null, null, null)),
      Map.entry("date", new JdbcType(Types.DATE, 10, null, null)),
      Map.entry("timestamp", new JdbcType(Types.TIMESTAMP, 26, 6, null)),
      Map.entry("timestamp_ntz", new JdbcType(Types.TIMESTAMP, 26, 6, null)),
      Map.entry("array", new JdbcType(Types.ARRAY, null, null, null)),
      Map.entry("map", new JdbcType(Types.JAVA_OBJECT, null, null, null)),
      Map.entry("struct", new JdbcType(Types.STRUCT, null, null, null)));

  static JdbcType of(DataType type) {
    if (type instanceof DecimalType decimal) {
      return new JdbcType(Types.DECIMAL, decimal.precision(), decimal.scale(), 10);
    }
    if (type instanceof CharType text) {
      return new JdbcType(Types.CHAR, text.length(), null, null);
    }
    if (type instanceof VarcharType text) {
      return new JdbcType(Types.VARCHAR, text.length(), null, null);
    }
    if (type instanceof StringType || type instanceof TimeType) { // results have times of day as text
      return new JdbcType(Types.VARCHAR, null, null, null);
    }
    return BY_NAME.getOrDefault(type.typeName(), OTHER);
  }
}
