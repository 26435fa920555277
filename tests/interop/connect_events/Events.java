package connect_events;

import static connect_events.Meanings.*;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.debezium.data.Envelope;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;

/** Events of one converter: rows (id, v) in Debezium's envelope, written by Connect. */
final class Events {
    private static final int GENERATED_DEPTH = 2;
    private static final int VALUES_OF_A_KIND = 4;

    private final JsonNode request;
    private final JsonConverter converter = new JsonConverter();
    private final boolean schemas;
    private final ArrayNode cases = JsonNodeFactory.instance.arrayNode();
    private int id;

    Events(JsonNode request) {
        this.request = request;
        this.schemas = request.path("schemas").asBoolean(true);
        converter.configure(Map.of("converter.type", "value", "schemas.enable", schemas, "decimal.format",
                request.path("decimal").asText("BASE64"), "replace.null.with.default",
                request.path("defaults").asBoolean(true)));
    }

    /** A row (id, v) as Debezium's envelope around it: what an INSERT wrote. */
    private void add(Kind<?> kind, String presence, Schema schema, Object value, JsonNode meaning) {
        id += 1;
        Schema row = SchemaBuilder.struct().name("oracle.Value").optional().field("id", Schema.INT32_SCHEMA)
                .field("v", schema).build();
        Struct source = source();
        Envelope envelope = Envelope.defineSchema().withName("oracle.Envelope").withRecord(row)
                .withSource(source.schema()).build();
        Struct after = new Struct(row).put("id", id).put("v", Nested.retyped(schema, value));
        Struct event = envelope.create(after, source, Instant.ofEpochMilli(1_700_000_000_000L + id));
        byte[] written = converter.fromConnectData("oracle", event.schema(), event);
        ObjectNode added = cases.addObject();
        added.put("name", kind.name()).put("presence", presence).put("id", id);
        added.put("semantic", schema.name()).put("kind", schema.type().getName());
        added.put("event", new String(written, StandardCharsets.UTF_8));
        added.set("meaning", meaning);
        if (schemas) {
            added.put("readBack", readBack(written, event));
        }
    }

    /** Whether Connect's converter reads what it wrote; a null that has a default comes back as that default. */
    private boolean readBack(byte[] written, Struct event) {
        SchemaAndValue read = converter.toConnectData("oracle", written);
        return converter.asJsonSchema(read.schema()).equals(converter.asJsonSchema(event.schema()))
                && same(read.value(), event);
    }

    private Struct source() {
        String connector = request.path("connector").asText("postgresql");
        Map<String, Object> members = new LinkedHashMap<>();
        members.put("version", "3.6.1.Final");
        members.put("connector", connector);
        members.put("name", "oracle");
        members.put("ts_ms", 1_700_000_000_000L + id);
        members.put("snapshot", "false");
        members.put("db", "oracle");
        members.put("schema", "public");
        members.put("table", "t");
        switch (connector) {
            case "postgresql" -> members.put("lsn", 1000L + id);
            case "mysql", "mariadb" -> {
                members.put("file", "binlog.000001");
                members.put("pos", 1000L + id);
                members.put("row", 0);
            }
            case "sqlserver" -> {
                members.put("change_lsn", String.format("00000027:00000ac0:%04x", id));
                members.put("commit_lsn", String.format("00000027:00000ac0:%04x", id));
                members.put("event_serial_no", 1L);
            }
            case "oracle" -> members.put("scn", String.valueOf(1000 + id));
            default -> throw new IllegalArgumentException(connector);
        }
        SchemaBuilder schema = SchemaBuilder.struct().name("oracle.Source");
        members.forEach((name, value) -> schema.field(name, value instanceof Long ? Schema.INT64_SCHEMA
                : value instanceof Integer ? Schema.INT32_SCHEMA : Schema.STRING_SCHEMA));
        Struct source = new Struct(schema.build());
        members.forEach(source::put);
        return source;
    }

    /** All values of a kind: required, optional, null, with a default, and null where there is a default. */
    private void addAll(Kind<?> kind) {
        Object first = kind.values().get(0);
        for (Object value : kind.values()) {
            add(kind, "required", kind.schema().get().build(), kind.encoded(value), kind.means(value));
        }
        add(kind, "optional", Nested.optional(kind), kind.encoded(first), kind.means(first));
        add(kind, "null", Nested.optional(kind), null, nothing());
        Schema plain = kind.schema().get().build();
        if (plain.type() == Schema.Type.STRUCT) {
            return;
        }
        Object last = kind.values().get(kind.values().size() - 1);
        Schema preset = Nested.optionalBuilder(kind).defaultValue(Nested.retyped(plain, kind.encoded(first))).build();
        add(kind, "default", preset, kind.encoded(last), kind.means(last));
        boolean replaced = request.path("defaults").asBoolean(true);
        add(kind, "null-with-default", preset, null, replaced ? kind.means(first) : nothing());
    }

    /** The cases of every kind, as JSON. */
    ArrayNode ofAllKinds() {
        Kinds.allKinds().forEach(this::addAll);
        return cases;
    }

    /** So many cases of random kinds and values, four of a kind in a row, as JSON. */
    ArrayNode generated(long seed, int count) {
        Random random = new Random(seed);
        List<Kind<?>> scalars = Kinds.scalars();
        while (cases.size() < count) {
            Kind<?> kind = Kinds.anyKind(random, scalars, GENERATED_DEPTH);
            for (int i = 0; i < VALUES_OF_A_KIND && cases.size() < count; i++) {
                Object value = random.nextInt(8) == 0 ? null : kind.draw().apply(random);
                add(kind, "optional", Nested.optional(kind), Nested.nullable(value, kind::encoded),
                        Nested.meansOrNull(kind, value));
            }
        }
        return cases;
    }

    private static boolean same(Object one, Object other) {
        if (one instanceof Struct left && other instanceof Struct right) {
            return left.schema().fields().stream()
                    .allMatch(field -> same(left.get(field.name()), right.get(field.name())));
        }
        if (one instanceof List<?> left && other instanceof List<?> right) {
            return pairwise(left, right);
        }
        if (one instanceof Map<?, ?> left && other instanceof Map<?, ?> right) {
            return left.keySet().equals(right.keySet())
                    && left.keySet().stream().allMatch(key -> same(left.get(key), right.get(key)));
        }
        if (binary(one) != null && binary(other) != null) {
            return Arrays.equals(binary(one), binary(other));
        }
        return one == null ? other == null : one.equals(other);
    }

    private static boolean pairwise(List<?> left, List<?> right) {
        for (int i = 0; i < left.size() && i < right.size(); i++) {
            if (!same(left.get(i), right.get(i))) {
                return false;
            }
        }
        return left.size() == right.size();
    }

    private static byte[] binary(Object value) {
        return value instanceof ByteBuffer buffer ? buffer.array() : value instanceof byte[] plain ? plain : null;
    }
}
