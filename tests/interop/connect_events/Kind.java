package connect_events;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Random;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.kafka.connect.data.SchemaBuilder;

/** What a column is of: its schema, and how a value becomes what Connect has for it and what it means. */
record Kind<T>(String name, Supplier<SchemaBuilder> schema, Function<T, Object> encode,
        Function<T, JsonNode> meaning, Function<Random, T> draw, List<T> values) {
    Object encoded(Object value) {
        return encode.apply(cast(value));
    }

    JsonNode means(Object value) {
        return meaning.apply(cast(value));
    }

    @SuppressWarnings("unchecked")
    private T cast(Object value) {
        return (T) value;
    }
}
