package io.github.pysparkpravega;

import com.google.common.hash.Hashing;
import io.github.pysparkpravega.Replies.KeySpace;
import java.util.Arrays;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** The functions of the namespace `system`, and `segment_of` of each table. */
final class PravegaFunctions {
  static final String SEGMENT_OF = "segment_of";

  private static final Scalar ROUTING_HASH = new Scalar("routing_hash",
      "routing_hash(key): where a routing key lies in the key space, from 0 to 1, as Pravega's clients hash it.",
      DataTypes.DoubleType, row -> hash(row.getString(0)), DataTypes.StringType);
  private static final Scalar EVENT_POINTER = new Scalar("event_pointer",
      "event_pointer(segment, offset, length): the pointer of an event of this length, as _event_pointer has it.",
      DataTypes.StringType,
      row -> UTF8String.fromString(row.getString(0) + ":" + row.getLong(1) + "-" + (row.getInt(2) + 8)),
      DataTypes.StringType, DataTypes.LongType, DataTypes.IntegerType);

  private static final Scalar SEGMENT_OF_NO_TABLE = new Scalar(SEGMENT_OF,
      "segment_of is a function of each table: write <catalog>.<namespace>.<table>.segment_of(key).",
      DataTypes.StringType, row -> null);

  static boolean isSystem(String[] namespace) {
    return namespace.length == 1 && namespace[0].equalsIgnoreCase("system");
  }

  static Identifier[] ofSystem() {
    String[] system = {"system"};
    return new Identifier[] {Identifier.of(system, EVENT_POINTER.name()), Identifier.of(system, ROUTING_HASH.name())};
  }

  /** Returns a function, or null if no function has this name. `segment_of` only says where it really is. */
  static UnboundFunction ofSystem(String name) {
    return name.equalsIgnoreCase(ROUTING_HASH.name()) ? ROUTING_HASH
        : name.equalsIgnoreCase(EVENT_POINTER.name()) ? EVENT_POINTER
        : name.equalsIgnoreCase(SEGMENT_OF) ? SEGMENT_OF_NO_TABLE : null;
  }

  /** The function of a table, with its segments as they are when the query is analyzed. */
  static UnboundFunction segmentOf(KeySpace segments) {
    double[] ends = segments.ends().stream().mapToDouble(Double::parseDouble).toArray();
    UTF8String[] names = segments.names().stream().map(UTF8String::fromString).toArray(UTF8String[]::new);
    return new Scalar(SEGMENT_OF, "segment_of(key): the segment that takes new events of a routing key.",
        DataTypes.StringType, row -> names[place(ends, hash(row.getString(0)))], DataTypes.StringType);
  }

  /** A border belongs to the lower segment, and what lies above the last one, by rounding, to the last segment. */
  private static int place(double[] ends, double hash) {
    int found = Arrays.binarySearch(ends, hash);
    return Math.min(found < 0 ? -found - 1 : found, ends.length - 1);
  }

  private static double hash(String key) {
    long bits = Hashing.murmur3_128("EventRouter".hashCode()).hashUnencodedChars(key).asLong();
    return (bits >>> 12) * 0x1.0p-52;
  }

  private interface Body extends Function<InternalRow, Object>, java.io.Serializable {}

  /** A function of fixed types that is null if an argument is. */
  private record Scalar(String name, String description, DataType result, Body body, DataType... inputs)
      implements UnboundFunction, ScalarFunction<Object> {
    @Override
    public BoundFunction bind(StructType arguments) {
      if (arguments.length() != inputs.length) {
        throw new UnsupportedOperationException(description);
      }
      return this;
    }

    @Override
    public DataType[] inputTypes() {
      return inputs.clone();
    }

    @Override
    public DataType resultType() {
      return result;
    }

    @Override
    public Object produceResult(InternalRow row) {
      for (int index = 0; index < inputs.length; index++) {
        if (row.isNullAt(index)) {
          return null;
        }
      }
      return body.apply(row);
    }
  }
}
