package connect_events;

import static connect_events.Meanings.*;

import com.fasterxml.jackson.databind.JsonNode;
import io.debezium.connector.postgresql.data.Ltree;
import io.debezium.data.Bits;
import io.debezium.data.Json;
import io.debezium.data.TsVector;
import io.debezium.data.Uuid;
import io.debezium.data.Xml;
import io.debezium.data.geometry.Geography;
import io.debezium.data.geometry.Geometry;
import io.debezium.data.geometry.Point;
import io.debezium.data.vector.DoubleVector;
import io.debezium.data.vector.FloatVector;
import io.debezium.data.vector.SparseDoubleVector;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.BitSet;
import java.util.List;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.kafka.connect.data.SchemaBuilder;

/** Columns of Debezium's other data types: bits, enumerations, documents, shapes and vectors. */
final class Values {
    record Shape(byte[] wkb, Integer srid) {}

    record Position(double x, double y) {}

    private Values() {}

    static Kind<String> words(String name, Supplier<SchemaBuilder> schema, String... values) {
        return new Kind<>(name, schema, value -> value, Meanings::text, random -> values[random.nextInt(values.length)],
                List.of(values));
    }

    /** Bits of a column BIT(length); they mean their digits, the most significant first. */
    static Kind<BitSet> bits(int length) {
        Function<BitSet, JsonNode> digits = value -> {
            StringBuilder all = new StringBuilder();
            for (int i = length - 1; i >= 0; i--) {
                all.append(value.get(i) ? '1' : '0');
            }
            return meaning("bits", all.toString());
        };
        BitSet full = new BitSet();
        full.set(0, length);
        BitSet ends = new BitSet();
        ends.set(0);
        ends.set(length - 1);
        BitSet last = new BitSet();
        last.set(length - 1);
        return new Kind<>("bits-" + length, () -> Bits.builder(length),
                value -> Bits.fromBitSet(Bits.schema(length), value), digits,
                random -> BitSet.valueOf(new BigInteger(length, random).toByteArray()).get(0, length),
                List.of(ends, new BitSet(), full, last));
    }

    static List<Kind<?>> texts() {
        String empty = "00000000-0000-0000-0000-000000000000";
        return List.of(words("enum", () -> io.debezium.data.Enum.builder(List.of("small", "large", "")), "small", ""),
                words("enum-set", () -> io.debezium.data.EnumSet.builder(List.of("a", "b", "c")), "a,c", "", "b"),
                words("json", Json::builder, "{\"a\": [1, 2.50, null]}", "null", "\"text\"", "[]", "1e400"),
                words("xml", Xml::builder, "<a b=\"c\">d</a>", ""),
                words("uuid", Uuid::builder, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", empty),
                words("tsvector", TsVector::builder, "'a':1 'fat':2,4", ""),
                words("ltree", Ltree::builder, "Top.Science.Astronomy", ""));
    }

    static byte[] wellKnownPoint(Position at) {
        return ByteBuffer.allocate(21).order(ByteOrder.LITTLE_ENDIAN).put((byte) 1).putInt(1).putDouble(at.x)
                .putDouble(at.y).array();
    }

    static Kind<Shape> shape(String name, Supplier<SchemaBuilder> schema) {
        return new Kind<>(name, schema,
                value -> Geometry.createValue(schema.get().build(), value.wkb, value.srid),
                value -> members("wkb", bytes(value.wkb), "srid", value.srid == null ? nothing() : whole(value.srid)),
                random -> new Shape(Numbers.anyBytes(random), random.nextBoolean() ? null : random.nextInt(10_000)),
                List.of(new Shape(wellKnownPoint(new Position(1.5, -2)), 4326), new Shape(new byte[0], null)));
    }

    static List<Kind<?>> shapes() {
        return List.of(
                new Kind<Position>("point", Point::builder,
                        value -> Point.createValue(Point.builder().build(), value.x, value.y),
                        value -> members("x", floating(value.x), "y", floating(value.y), "wkb",
                                bytes(wellKnownPoint(value)), "srid", nothing()),
                        random -> new Position(random.nextGaussian(), random.nextGaussian()),
                        List.of(new Position(1.5, -2), new Position(0, 0))),
                shape("geometry", Geometry::builder), shape("geography", Geography::builder),
                new Kind<List<Double>>("double-vector", DoubleVector::builder,
                        value -> DoubleVector.fromLogical(DoubleVector.schema(), value.toString()),
                        value -> list(value.stream().map(Meanings::floating).toList()),
                        random -> List.of(random.nextGaussian(), random.nextGaussian()),
                        List.of(List.of(1.5, -0.1), List.of(0.0))),
                new Kind<List<Float>>("float-vector", FloatVector::builder,
                        value -> FloatVector.fromLogical(FloatVector.schema(), value.toString()),
                        value -> list(value.stream().map(Meanings::floating).toList()),
                        random -> List.of((float) random.nextGaussian(), (float) random.nextGaussian()),
                        List.of(List.of(1.5f, -0.1f), List.of(0f))),
                new Kind<List<Entry>>("sparse-double-vector", SparseDoubleVector::builder,
                        value -> {
                            List<String> entries = value.stream().map(it -> it.key() + ":" + it.value()).toList();
                            String literal = "{" + String.join(",", entries) + "}/25";
                            return SparseDoubleVector.fromLogical(SparseDoubleVector.schema(), literal);
                        },
                        value -> members("dimensions", whole(25), "vector", pairs(value, Meanings::whole,
                                it -> floating((Number) it))),
                        random -> List.of(new Entry((short) (1 + random.nextInt(25)), random.nextGaussian())),
                        List.of(List.of(new Entry((short) 1, 0.5), new Entry((short) 20, -2.0)),
                                List.of(new Entry((short) 3, 1.0)))));
    }
}
