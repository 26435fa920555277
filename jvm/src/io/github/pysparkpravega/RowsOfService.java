package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** A few rows that the service makes on the driver, as lists of values. Times are microseconds since 1970. */
record RowsOfService(StructType readSchema, Supplier<JsonNode> values) implements LocalScan {
  @Override
  public InternalRow[] rows() {
    JsonNode made = values.get();
    InternalRow[] rows = new InternalRow[made.size()];
    for (int index = 0; index < rows.length; index++) {
      JsonNode row = made.get(index);
      Object[] cells = new Object[readSchema.length()];
      Arrays.setAll(cells, column -> cell(readSchema.apply(column).dataType(), row.get(column)));
      rows[index] = new GenericInternalRow(cells);
    }
    return rows;
  }

  private static Object cell(DataType type, JsonNode value) {
    if (value.isNull()) {
      return null;
    }
    if (type instanceof ArrayType array) {
      Object[] elements = new Object[value.size()];
      Arrays.setAll(elements, index -> cell(array.elementType(), value.get(index)));
      return new GenericArrayData(elements);
    }
    return switch (type.typeName()) {
      case "string" -> UTF8String.fromString(value.asText());
      case "boolean" -> value.asBoolean();
      case "integer" -> value.asInt();
      case "double" -> value.asDouble();
      default -> value.asLong();
    };
  }
}
