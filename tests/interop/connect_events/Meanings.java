package connect_events;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.debezium.connector.postgresql.PostgresValueConverter;
import io.debezium.data.SpecialValueDecimal;
import java.math.BigDecimal;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.HexFormat;
import java.util.List;
import java.util.function.Function;

/** Says what values are, in forms that are no encoding of any format; `kafka_connect.py` lists them. */
final class Meanings {
    static final ObjectMapper JSON = new ObjectMapper();
    static final HexFormat HEX = HexFormat.of();

    private Meanings() {}

    static JsonNode meaning(String form, Object value) {
        return JSON.createObjectNode().put("form", form).set("value", JSON.valueToTree(value));
    }

    static JsonNode nothing() {
        return meaning("null", null);
    }

    static JsonNode whole(Object value) {
        return meaning("integer", String.valueOf(value));
    }

    static JsonNode floating(Number value) {
        return meaning("float", Double.toString(value.doubleValue()));
    }

    static JsonNode text(String value) {
        return meaning("text", value);
    }

    static JsonNode bytes(byte[] value) {
        return meaning("bytes", HEX.formatHex(value));
    }

    static JsonNode decimal(BigDecimal value) {
        return meaning("decimal", value.toPlainString());
    }

    static JsonNode special(SpecialValueDecimal value) {
        return value.getDecimalValue().map(Meanings::decimal).orElseGet(() -> meaning("special", value.toString()));
    }

    static JsonNode date(LocalDate value) {
        if (value.equals(PostgresValueConverter.POSITIVE_INFINITY_LOCAL_DATE)) {
            return meaning("infinity", "infinity");
        }
        if (value.equals(PostgresValueConverter.NEGATIVE_INFINITY_LOCAL_DATE)) {
            return meaning("infinity", "-infinity");
        }
        return meaning("date", value.toString());
    }

    static JsonNode time(LocalTime value) {
        return meaning("time", value.toString());
    }

    /** A date and time without a zone; what PostgreSQL calls infinity is said so. */
    static JsonNode local(LocalDateTime value) {
        if (value.equals(PostgresValueConverter.POSITIVE_INFINITY_LOCAL_DATE_TIME)) {
            return meaning("infinity", "infinity");
        }
        if (value.equals(PostgresValueConverter.NEGATIVE_INFINITY_LOCAL_DATE_TIME)) {
            return meaning("infinity", "-infinity");
        }
        return meaning("timestamp", value.toString());
    }

    static JsonNode list(List<JsonNode> values) {
        return meaning("list", values);
    }

    static JsonNode members(Object... namesAndMeanings) {
        ObjectNode members = JSON.createObjectNode();
        for (int i = 0; i < namesAndMeanings.length; i += 2) {
            members.set((String) namesAndMeanings[i], (JsonNode) namesAndMeanings[i + 1]);
        }
        return meaning("struct", members);
    }

    static JsonNode pairs(List<Entry> entries, Function<Object, JsonNode> keys,
            Function<Object, JsonNode> values) {
        ArrayNode pairs = JSON.createArrayNode();
        for (Entry each : entries) {
            pairs.addArray().add(keys.apply(each.key())).add(values.apply(each.value()));
        }
        return meaning("map", pairs);
    }
}
