import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.apicurio.registry.utils.converter.avro.AvroData;
import io.debezium.bindings.kafka.KafkaDebeziumSinkRecord;
import io.debezium.connector.jdbc.JdbcSinkConnectorTask;
import io.debezium.sink.SinkConnectorConfig.PrimaryKeyMode;
import io.debezium.transforms.ExtractNewRecordState;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.lang.reflect.Constructor;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.formats.avro.AvroRowDataDeserializationSchema;
import org.apache.flink.formats.avro.AvroToRowDataConverters;
import org.apache.flink.formats.avro.RegistryAvroDeserializationSchema;
import org.apache.flink.formats.avro.SchemaCoder;
import org.apache.flink.formats.avro.registry.confluent.debezium.DebeziumAvroDeserializationSchema;
import org.apache.flink.formats.avro.typeutils.AvroSchemaConverter;
import org.apache.flink.formats.common.TimestampFormat;
import org.apache.flink.formats.json.debezium.DebeziumJsonDeserializationSchema;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.GenericArrayData;
import org.apache.flink.table.data.GenericMapData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.utils.LogicalTypeParser;
import org.apache.flink.table.types.utils.TypeConversions;
import org.apache.flink.util.Collector;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;

/**
 * Reads Debezium's events with the classes of Flink, Debezium and Kafka Connect; `debezium_readers.py` describes it.
 *
 * A leaf of a row is null or a text, bytes are hexadecimal, a row is a list of its values.
 */
public final class DebeziumReaders {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final TypeInformation<RowData> ROWS = TypeInformation.of(RowData.class);
    private static final String TOPIC = "t";
    /** Records that Kafka Connect hands over at once; few, so that batches begin and end between any two changes. */
    private static final int BATCH = 7;

    private DebeziumReaders() {}

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Whatever a library prints must not mix with the answers.
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("changes", JSON.valueToTree(read(JSON.readTree(line))));
            } catch (Exception | LinkageError e) {
                e.printStackTrace();
                answer.put("error", e.toString());
            }
            answers.println(answer);
        }
    }

    private static List<List<Object>> read(JsonNode request) throws Exception {
        List<byte[]> events = new ArrayList<>();
        request.get("events").forEach(event -> events.add(HexFormat.of().parseHex(event.asText())));
        String operation = request.get("operation").asText();
        if (operation.startsWith("flink")) {
            DataType row = TypeConversions.fromLogicalToDataType(
                    LogicalTypeParser.parse(request.get("row").asText(), DebeziumReaders.class.getClassLoader()));
            return flink(events, operation.equals("flink-json") ? flinkJson(row)
                    : flinkAvro(row, new Schema.Parser().parse(request.get("schema").asText())));
        }
        List<String> key = Arrays.asList(JSON.treeToValue(request.get("key"), String[].class));
        Function<byte[], SchemaAndValue> converter = operation.equals("jdbc-json")
                ? jsonConverter(request.get("schema").asText())
                : avroConverter(new Schema.Parser().parse(request.get("schema").asText()));
        List<SinkRecord> records = records(events, converter, key);
        if (operation.startsWith("jdbc")) {
            Map<String, String> settings = JSON.convertValue(request.get("settings"), new TypeReference<>() {});
            return jdbc(records, settings, request.get("query").asText());
        }
        return connect(records, operation.equals("unwrap"));
    }

    // ---- Flink

    private static List<List<Object>> flink(List<byte[]> events, DeserializationSchema<RowData> format)
            throws Exception {
        format.open(null);
        List<List<Object>> changes = new ArrayList<>();
        Collector<RowData> collector = new Collector<>() {
            @Override
            public void collect(RowData row) {
                changes.add(Arrays.asList(row.getRowKind().shortString(), show(row)));
            }

            @Override
            public void close() {}
        };
        for (byte[] event : events) {
            format.deserialize(event, collector);
        }
        return changes;
    }

    private static DeserializationSchema<RowData> flinkJson(DataType row) {
        return new DebeziumJsonDeserializationSchema(row, List.of(), ROWS, false, false, TimestampFormat.ISO_8601);
    }

    /** As the format's factory makes it, but with this schema in place of those of Confluent's registry. */
    private static DeserializationSchema<RowData> flinkAvro(DataType row, Schema written) throws Exception {
        RowType envelope = DebeziumAvroDeserializationSchema.createDebeziumAvroRowType(row);
        SchemaCoder coder = new SchemaCoder() {
            @Override
            public Schema readSchema(InputStream event) {
                return written;
            }

            @Override
            public void writeSchema(Schema schema, OutputStream event) {
                throw new UnsupportedOperationException();
            }
        };
        AvroRowDataDeserializationSchema rows = new AvroRowDataDeserializationSchema(
                new RegistryAvroDeserializationSchema<>(
                        GenericRecord.class, AvroSchemaConverter.convertToSchema(envelope), () -> coder),
                AvroToRowDataConverters.createRowConverter(envelope), ROWS);
        Constructor<DebeziumAvroDeserializationSchema> constructor = DebeziumAvroDeserializationSchema.class
                .getDeclaredConstructor(TypeInformation.class, AvroRowDataDeserializationSchema.class);
        constructor.setAccessible(true);
        return constructor.newInstance(ROWS, rows);
    }

    // ---- Kafka Connect

    private static Function<byte[], SchemaAndValue> avroConverter(Schema schema) {
        AvroData avro = new AvroData(1);
        GenericDatumReader<GenericRecord> reader = new GenericDatumReader<>(schema);
        return event -> {
            try {
                return avro.toConnectData(
                        schema, reader.read(null, DecoderFactory.get().binaryDecoder(event, null)));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        };
    }

    /** Connect's converter, which takes the schema of events without one from its settings. */
    private static Function<byte[], SchemaAndValue> jsonConverter(String schema) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", "true", "schema.content", schema), false);
        return event -> converter.toConnectData(TOPIC, event);
    }

    /** Records as of a topic: their keys are those of the rows. */
    private static List<SinkRecord> records(
            List<byte[]> events, Function<byte[], SchemaAndValue> converter, List<String> key) {
        List<SinkRecord> records = new ArrayList<>();
        for (byte[] event : events) {
            SchemaAndValue value = converter.apply(event);
            Struct envelope = (Struct) value.value();
            Struct row = envelope.getStruct(envelope.get("after") == null ? "before" : "after");
            SchemaBuilder keySchema = SchemaBuilder.struct();
            key.forEach(name -> keySchema.field(name, row.schema().field(name).schema()));
            Struct keys = new Struct(keySchema.build());
            key.forEach(name -> keys.put(name, row.get(name)));
            records.add(new SinkRecord(
                    TOPIC, 0, keys.schema(), keys, value.schema(), value.value(), records.size()));
        }
        return records;
    }

    /** What sinks of Debezium (JDBC's and others) take from the records, or others behind its transformation. */
    private static List<List<Object>> connect(List<SinkRecord> records, boolean unwrap) {
        ExtractNewRecordState<SinkRecord> unwrapping = new ExtractNewRecordState<>();
        unwrapping.configure(Map.of());
        List<List<Object>> changes = new ArrayList<>();
        for (SinkRecord record : records) {
            if (unwrap) {
                SinkRecord unwrapped = unwrapping.apply(record);
                changes.add(Arrays.asList(show(unwrapped.key()), show(unwrapped.value())));
            } else {
                KafkaDebeziumSinkRecord read = new KafkaDebeziumSinkRecord(record, "");
                Object found = read.getFilteredKey(PrimaryKeyMode.RECORD_KEY, Set.of(), (topic, column) -> true);
                changes.add(Arrays.asList(show(found), read.isDelete() ? null : show(read.getPayload())));
            }
        }
        return changes;
    }

    // ---- Debezium's JDBC sink

    /** The results of a query, each a text of JSON, after a task of the connector has written the records. */
    private static List<List<Object>> jdbc(List<SinkRecord> records, Map<String, String> settings, String query)
            throws Exception {
        JdbcSinkConnectorTask task = new JdbcSinkConnectorTask();
        task.start(settings);
        try {
            for (int i = 0; i < records.size(); i += BATCH) {
                task.put(records.subList(i, Math.min(i + BATCH, records.size())));
            }
            // A batch that fails is reported by the next one.
            task.put(List.of());
        } finally {
            task.stop();
        }
        List<List<Object>> rows = new ArrayList<>();
        try (Connection connection = DriverManager.getConnection(settings.get("connection.url"));
                ResultSet results = connection.createStatement().executeQuery(query)) {
            while (results.next()) {
                rows.add(Arrays.asList(JSON.readValue(results.getString(1), Object[].class)));
            }
        }
        return rows;
    }

    // ---- values

    private static Object show(Object value) {
        if (value instanceof GenericRowData row) {
            List<Object> shown = new ArrayList<>();
            for (int i = 0; i < row.getArity(); i++) {
                shown.add(show(row.getField(i)));
            }
            return shown;
        } else if (value instanceof Struct struct) {
            return struct.schema().fields().stream().map(Field::name).map(name -> show(struct.get(name))).toList();
        } else if (value instanceof GenericArrayData array) {
            return show(Arrays.asList(array.toObjectArray()));
        } else if (value instanceof List<?> list) {
            List<Object> shown = new ArrayList<>();
            list.forEach(each -> shown.add(show(each)));
            return shown;
        } else if (value instanceof GenericMapData map) {
            Object keys = show(map.keyArray());
            return List.of(keys, show(map.valueArray()));
        } else if (value instanceof Map<?, ?> map) {
            return List.of(show(new ArrayList<>(map.keySet())), show(new ArrayList<>(map.values())));
        } else if (value instanceof byte[] bytes) {
            return HexFormat.of().formatHex(bytes);
        } else if (value instanceof ByteBuffer bytes) {
            byte[] copied = new byte[bytes.remaining()];
            bytes.duplicate().get(copied);
            return HexFormat.of().formatHex(copied);
        } else if (value instanceof DecimalData decimal) {
            return decimal.toBigDecimal().toPlainString();
        } else if (value instanceof BigDecimal decimal) {
            return decimal.toPlainString();
        } else if (value instanceof Date date) {
            return date.toInstant().toString();
        }
        return value == null ? null : value.toString();
    }
}
