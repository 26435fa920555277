package connect_events;

import static connect_events.Meanings.*;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;

/** Arrays, maps and structs of other columns; what is inside may be null. */
final class Nested {
    private Nested() {}

    /** A kind's schema, optional; those of geometries are so already, and Connect takes that once. */
    static SchemaBuilder optionalBuilder(Kind<?> kind) {
        SchemaBuilder builder = kind.schema().get();
        return builder.isOptional() ? builder : builder.optional();
    }

    static Schema optional(Kind<?> kind) {
        return optionalBuilder(kind).build();
    }

    static Object nullable(Object value, Function<Object, ?> otherwise) {
        return value == null ? null : otherwise.apply(value);
    }

    static JsonNode meansOrNull(Kind<?> kind, Object value) {
        return value == null ? nothing() : kind.means(value);
    }

    static <T> Kind<List<T>> array(Kind<T> of) {
        Function<Random, List<T>> draw = random -> {
            List<T> drawn = new ArrayList<>();
            for (int i = random.nextInt(4); i > 0; i--) {
                drawn.add(random.nextInt(4) == 0 ? null : of.draw().apply(random));
            }
            return drawn;
        };
        List<T> all = new ArrayList<>(of.values());
        all.add(null);
        return new Kind<>("array of " + of.name(), () -> SchemaBuilder.array(optional(of)),
                value -> value.stream().map(each -> nullable(each, of::encoded)).toList(),
                value -> list(value.stream().map(each -> meansOrNull(of, each)).toList()), draw,
                List.of(all, List.of()));
    }

    static Kind<List<Entry>> map(Kind<?> keys, Kind<?> values) {
        Function<List<Entry>, Object> encode = entries -> {
            Map<Object, Object> encoded = new LinkedHashMap<>();
            entries.forEach(it -> encoded.put(keys.encoded(it.key()), nullable(it.value(), values::encoded)));
            return encoded;
        };
        Function<Random, List<Entry>> draw = random -> {
            Map<Object, Entry> byKey = new LinkedHashMap<>();
            for (int i = random.nextInt(4); i > 0; i--) {
                Object key = keys.draw().apply(random);
                Object value = random.nextInt(4) == 0 ? null : values.draw().apply(random);
                byKey.put(keys.means(key), new Entry(key, value));
            }
            return new ArrayList<>(byKey.values());
        };
        List<Entry> all = new ArrayList<>();
        for (int i = 0; i < keys.values().size(); i++) {
            Object value = i == 1 ? null : values.values().get(i % values.values().size());
            all.add(new Entry(keys.values().get(i), value));
        }
        return new Kind<>("map of " + keys.name() + " to " + values.name(),
                () -> SchemaBuilder.map(keys.schema().get().build(), optional(values)), encode,
                entries -> pairs(entries, keys::means, it -> meansOrNull(values, it)), draw, List.of(all, List.of()));
    }

    static Kind<List<Object>> struct(List<Kind<?>> of) {
        Supplier<SchemaBuilder> schema = () -> {
            SchemaBuilder builder = SchemaBuilder.struct().name("oracle.Nested");
            for (int i = 0; i < of.size(); i++) {
                builder.field("f" + i, optional(of.get(i)));
            }
            return builder;
        };
        Function<List<Object>, Object> encode = values -> {
            Struct encoded = new Struct(schema.get().build());
            for (int i = 0; i < of.size(); i++) {
                encoded.put("f" + i, retyped(encoded.schema().field("f" + i).schema(),
                        nullable(values.get(i), of.get(i)::encoded)));
            }
            return encoded;
        };
        Function<List<Object>, JsonNode> meaning = values -> {
            Object[] members = new Object[2 * of.size()];
            for (int i = 0; i < of.size(); i++) {
                members[2 * i] = "f" + i;
                members[2 * i + 1] = meansOrNull(of.get(i), values.get(i));
            }
            return members(members);
        };
        Function<Random, List<Object>> draw = random -> {
            List<Object> drawn = new ArrayList<>();
            of.forEach(each -> drawn.add(random.nextInt(4) == 0 ? null : each.draw().apply(random)));
            return drawn;
        };
        List<Object> nulls = Arrays.asList(new Object[of.size()]);
        List<Object> first = new ArrayList<>();
        of.forEach(each -> first.add(each.values().get(0)));
        String names = String.join(", ", of.stream().map(Kind::name).toList());
        return new Kind<>("struct of " + names, schema, encode, meaning, draw, List.of(first, nulls));
    }

    /**
     * The value with its structs under another schema of the same fields.
     *
     * A Struct holds its schema, and Connect takes one only where exactly that schema, optional or with its default,
     * is expected.
     */
    static Object retyped(Schema schema, Object value) {
        if (value instanceof Struct struct) {
            Struct other = new Struct(schema);
            for (Field field : schema.fields()) {
                other.put(field, retyped(field.schema(), struct.getWithoutDefault(field.name())));
            }
            return other;
        }
        if (value instanceof List<?> elements) {
            List<Object> others = new ArrayList<>();
            elements.forEach(each -> others.add(retyped(schema.valueSchema(), each)));
            return others;
        }
        if (value instanceof Map<?, ?> entries) {
            Map<Object, Object> others = new LinkedHashMap<>();
            entries.forEach((key, each) -> others.put(retyped(schema.keySchema(), key),
                    retyped(schema.valueSchema(), each)));
            return others;
        }
        return value;
    }
}
