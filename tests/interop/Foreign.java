import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.DescriptorValidationException;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.TypeRegistry;
import com.google.protobuf.UninitializedMessageException;
import com.google.protobuf.util.JsonFormat;
import io.pravega.client.BatchClientFactory;
import io.pravega.client.ClientConfig;
import io.pravega.client.EventStreamClientFactory;
import io.pravega.client.KeyValueTableFactory;
import io.pravega.client.admin.KeyValueTableManager;
import io.pravega.client.admin.ReaderGroupManager;
import io.pravega.client.admin.StreamInfo;
import io.pravega.client.admin.StreamManager;
import io.pravega.client.batch.SegmentIterator;
import io.pravega.client.batch.SegmentRange;
import io.pravega.client.state.InitialUpdate;
import io.pravega.client.state.StateSynchronizer;
import io.pravega.client.stream.Checkpoint;
import io.pravega.client.stream.EventRead;
import io.pravega.client.stream.EventStreamReader;
import io.pravega.client.stream.EventStreamWriter;
import io.pravega.client.stream.EventWriterConfig;
import io.pravega.client.stream.ReaderConfig;
import io.pravega.client.stream.ReaderGroup;
import io.pravega.client.stream.ReaderGroupConfig;
import io.pravega.client.stream.ScalingPolicy;
import io.pravega.client.stream.Serializer;
import io.pravega.client.stream.Stream;
import io.pravega.client.stream.StreamConfiguration;
import io.pravega.client.stream.StreamCut;
import io.pravega.client.stream.TimeWindow;
import io.pravega.client.stream.Transaction;
import io.pravega.client.stream.TransactionalEventStreamWriter;
import io.pravega.client.stream.impl.ByteBufferSerializer;
import io.pravega.client.stream.impl.ReaderGroupImpl;
import io.pravega.client.stream.impl.ReaderGroupState;
import io.pravega.client.stream.impl.UTF8StringSerializer;
import io.pravega.client.tables.KeyValueTable;
import io.pravega.client.tables.KeyValueTableClientConfiguration;
import io.pravega.client.tables.KeyValueTableConfiguration;
import io.pravega.client.tables.Put;
import io.pravega.client.tables.TableEntry;
import io.pravega.client.tables.TableKey;
import io.pravega.schemaregistry.client.SchemaRegistryClientConfig;
import io.pravega.schemaregistry.contract.data.Compatibility;
import io.pravega.schemaregistry.contract.data.SerializationFormat;
import io.pravega.schemaregistry.serializer.avro.schemas.AvroSchema;
import io.pravega.schemaregistry.serializer.json.schemas.JSONSchema;
import io.pravega.schemaregistry.serializer.protobuf.schemas.ProtobufSchema;
import io.pravega.schemaregistry.serializer.shared.codec.Codecs;
import io.pravega.schemaregistry.serializer.shared.impl.SerializerConfig;
import io.pravega.schemaregistry.serializers.SerializerFactory;
import io.pravega.schemaregistry.serializers.WithSchema;
import io.pravega.shared.security.auth.DefaultCredentials;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericContainer;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.io.JsonEncoder;

/**
 * The other side of the interoperability tests: the official Java client and serializers, remote controlled.
 *
 * Reads one JSON request a line from standard input and answers each with one JSON line. `foreign.py` describes the
 * requests. Avro values are in Avro's own JSON encoding, bytes and Protobuf messages in hexadecimal.
 */
public class Foreign {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final long GROUP_REFRESH_MILLIS = 100;

    private final JsonNode request;
    private final String scope;
    private final String stream;
    private final ClientConfig client;

    private Foreign(JsonNode request) {
        this.request = request;
        this.scope = request.path("scope").asText();
        this.stream = request.path("stream").asText();
        ClientConfig.ClientConfigBuilder builder = ClientConfig.builder()
                .controllerURI(URI.create(request.get("controller").asText()));
        if (request.hasNonNull("trustStore")) {
            builder.trustStore(request.get("trustStore").asText());
        }
        if (request.hasNonNull("user")) {
            builder.credentials(new DefaultCredentials(request.get("password").asText(), request.get("user").asText()));
        }
        this.client = builder.build();
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Whatever a library prints must not mix with the answers.
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                JsonNode request = JSON.readTree(line);
                if (request.get("operation").asText().equals("protobuf-json")) {
                    protobufAsJson(request, answer.putArray("results"));
                } else {
                    new Foreign(request).run(answer);
                }
            } catch (Exception | LinkageError e) {
                e.printStackTrace();
                answer.put("error", e.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
        }
        // Threads of the client would keep the process.
        System.exit(0);
    }

    private void run(ObjectNode answer) throws Exception {
        String operation = request.get("operation").asText();
        switch (operation) {
            case "create-stream" -> createStream();
            case "write" -> write();
            case "read" -> read(answer.putArray("events"));
            case "cuts" -> cuts(answer);
            case "note-time" -> noteTime();
            case "time-window" -> timeWindow(answer);
            case "reader-group" -> readerGroup(answer);
            case "create-reader-group" -> createReaderGroup();
            case "read-in-group" -> readInGroup(answer);
            case "checkpoint-reader-group" -> checkpointReaderGroup();
            case "compact-reader-group" -> compactReaderGroup();
            case "delete-reader-group" -> deleteReaderGroup();
            case "create-key-value-table" -> createKeyValueTable();
            case "put-entry" -> putEntry();
            case "get-entry" -> getEntry(answer);
            default -> throw new IllegalArgumentException("unknown operation " + operation);
        }
    }

    private void createStream() {
        try (StreamManager manager = StreamManager.create(client)) {
            manager.createScope(scope);
            ScalingPolicy segments = ScalingPolicy.fixed(request.get("segments").asInt());
            manager.createStream(scope, stream, StreamConfiguration.builder().scalingPolicy(segments).build());
        }
    }

    private void cuts(ObjectNode answer) {
        try (StreamManager manager = StreamManager.create(client)) {
            StreamInfo info = manager.fetchStreamInfo(scope, stream).join();
            answer.put("head", info.getHeadStreamCut().asText());
            answer.put("tail", info.getTailStreamCut().asText());
        }
    }

    // ---- key-value tables

    private void createKeyValueTable() {
        try (KeyValueTableManager manager = KeyValueTableManager.create(client)) {
            manager.createKeyValueTable(scope, stream, KeyValueTableConfiguration.builder()
                    .partitionCount(request.get("partitions").asInt())
                    .primaryKeyLength(request.get("primary").asInt())
                    .secondaryKeyLength(request.get("secondary").asInt()).build());
        }
    }

    private KeyValueTable keyValueTable(KeyValueTableFactory factory) {
        return factory.forKeyValueTable(stream, KeyValueTableClientConfiguration.builder().build());
    }

    /** The key of a country and a number, as a program in Java would put it together; the day is the secondary key. */
    private TableKey key() {
        byte[] country = request.get("country").asText().getBytes(StandardCharsets.UTF_8);
        ByteBuffer primary = ByteBuffer.allocate(7).put(Arrays.copyOf(country, 3)).putInt(request.get("id").asInt());
        ByteBuffer day = ByteBuffer.allocate(4);
        day.putInt((int) LocalDate.parse(request.get("day").asText()).toEpochDay());
        return new TableKey(primary.flip(), day.flip());
    }

    private void putEntry() {
        try (KeyValueTableFactory factory = KeyValueTableFactory.withScope(scope, client);
             KeyValueTable table = keyValueTable(factory)) {
            byte[] value = request.get("value").asText().getBytes(StandardCharsets.UTF_8);
            table.update(new Put(key(), ByteBuffer.wrap(value))).join();
        }
    }

    private void getEntry(ObjectNode answer) {
        try (KeyValueTableFactory factory = KeyValueTableFactory.withScope(scope, client);
             KeyValueTable table = keyValueTable(factory)) {
            TableEntry entry = table.get(key()).join();
            answer.put("value", entry == null ? null : StandardCharsets.UTF_8.decode(entry.getValue()).toString());
        }
    }

    // ---- event time

    /** Writes texts in one transaction, whose commit notes a time; `noteTime` does not say when it has done so. */
    private void noteTime() throws Exception {
        String writer = request.get("writer").asText();
        EventWriterConfig config = EventWriterConfig.builder().build();
        try (EventStreamClientFactory factory = EventStreamClientFactory.withScope(scope, client);
             TransactionalEventStreamWriter<String> events =
                     factory.createTransactionalEventWriter(writer, stream, new UTF8StringSerializer(), config)) {
            Transaction<String> transaction = events.beginTxn();
            for (JsonNode event : request.get("events")) {
                transaction.writeEvent(event.get("key").asText(), event.get("value").asText());
            }
            transaction.commit(request.get("time").asLong());
            while (transaction.checkStatus() == Transaction.Status.COMMITTING) {
                Thread.sleep(10);
            }
        }
    }

    /** Reads all events, and then waits until the window's lower bound is at least that of the request. */
    private void timeWindow(ObjectNode answer) throws Exception {
        String name = "window-" + UUID.randomUUID();
        Stream read = Stream.of(scope, stream);
        long atLeast = request.get("atLeast").asLong();
        ReaderGroupConfig config = ReaderGroupConfig.builder().stream(read).disableAutomaticCheckpoints().build();
        try (ReaderGroupManager groups = ReaderGroupManager.withScope(scope, client);
             EventStreamClientFactory factory = EventStreamClientFactory.withScope(scope, client)) {
            groups.createReaderGroup(name, config);
            try (EventStreamReader<ByteBuffer> reader = factory.createReader(
                    "reader", name, new ByteBufferSerializer(), ReaderConfig.builder().build())) {
                long deadline = System.currentTimeMillis() + 40_000;
                TimeWindow window;
                do {
                    reader.readNextEvent(200);
                    window = reader.getCurrentTimeWindow(read);
                } while ((window.getLowerTimeBound() == null || window.getLowerTimeBound() < atLeast)
                        && System.currentTimeMillis() < deadline);
                answer.put("lower", window.getLowerTimeBound());
            }
            groups.deleteReaderGroup(name);
        }
    }

    // ---- reader groups

    private void createReaderGroup() {
        ReaderGroupConfig.ReaderGroupConfigBuilder config =
                ReaderGroupConfig.builder().stream(Stream.of(scope, stream)).groupRefreshTimeMillis(GROUP_REFRESH_MILLIS);
        if (request.get("holding").asBoolean()) {
            config.retentionType(ReaderGroupConfig.StreamDataRetention.AUTOMATIC_RELEASE_AT_LAST_CHECKPOINT);
        } else {
            config.disableAutomaticCheckpoints();
        }
        try (ReaderGroupManager groups = ReaderGroupManager.withScope(scope, client)) {
            groups.createReaderGroup(request.get("group").asText(), config.build());
        }
    }

    /** Reads events in a group, makes a checkpoint if that is asked for, and reads more. */
    private void readInGroup(ObjectNode answer) throws Exception {
        String name = request.get("group").asText();
        ScheduledExecutorService executor = Executors.newSingleThreadScheduledExecutor();
        try (ReaderGroupManager groups = ReaderGroupManager.withScope(scope, client);
             ReaderGroup group = groups.getReaderGroup(name);
             EventStreamClientFactory factory = EventStreamClientFactory.withScope(scope, client);
             EventStreamReader<String> reader = factory.createReader(
                     "reader-" + UUID.randomUUID(), name, new UTF8StringSerializer(), ReaderConfig.builder().build())) {
            ArrayNode before = answer.putArray("before");
            read(reader, before, request.get("events").asInt());
            if (request.get("checkpoint").asBoolean()) {
                CompletableFuture<Checkpoint> checkpoint = group.initiateCheckpoint(UUID.randomUUID().toString(), executor);
                Thread.sleep(3 * GROUP_REFRESH_MILLIS); // or else the reader reads on before it looks for checkpoints
                EventRead<String> event;
                do {
                    event = reader.readNextEvent(2000);
                    if (event.getEvent() != null) {
                        before.add(event.getEvent());
                    }
                } while (!event.isCheckpoint());
                ArrayNode after = answer.putArray("after");
                read(reader, after, request.get("more").asInt());
                checkpoint.get(30, TimeUnit.SECONDS);
            }
        } finally {
            executor.shutdownNow();
        }
    }

    private void checkpointReaderGroup() throws Exception {
        ScheduledExecutorService executor = Executors.newSingleThreadScheduledExecutor();
        try (ReaderGroupManager groups = ReaderGroupManager.withScope(scope, client);
             ReaderGroup group = groups.getReaderGroup(request.get("group").asText())) {
            group.initiateCheckpoint(UUID.randomUUID().toString(), executor).get(30, TimeUnit.SECONDS);
        } finally {
            executor.shutdownNow();
        }
    }

    private static void read(EventStreamReader<String> reader, ArrayNode events, int count) {
        long deadline = System.currentTimeMillis() + 60_000;
        while (events.size() < count) {
            String event = reader.readNextEvent(2000).getEvent();
            if (event != null) {
                events.add(event);
            } else if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("only " + events.size() + " of " + count + " events came");
            }
        }
    }

    /** Writes a group's whole state, as Java's readers do now and then. */
    private void compactReaderGroup() throws Exception {
        Field field = ReaderGroupImpl.class.getDeclaredField("synchronizer");
        field.setAccessible(true);
        Constructor<?> whole = Class.forName(ReaderGroupState.class.getName() + "$CompactReaderGroupState")
                .getDeclaredConstructor(ReaderGroupState.class);
        whole.setAccessible(true);
        try (ReaderGroupManager groups = ReaderGroupManager.withScope(scope, client);
             ReaderGroup group = groups.getReaderGroup(request.get("group").asText())) {
            @SuppressWarnings("unchecked")
            StateSynchronizer<ReaderGroupState> states = (StateSynchronizer<ReaderGroupState>) field.get(group);
            states.fetchUpdates();
            states.compact(state -> {
                try {
                    @SuppressWarnings("unchecked")
                    InitialUpdate<ReaderGroupState> update = (InitialUpdate<ReaderGroupState>) whole.newInstance(state);
                    return update;
                } catch (ReflectiveOperationException e) {
                    throw new IllegalStateException(e);
                }
            });
        }
    }

    private void readerGroup(ObjectNode answer) {
        try (ReaderGroupManager groups = ReaderGroupManager.withScope(scope, client);
             ReaderGroup group = groups.getReaderGroup(request.get("group").asText())) {
            ArrayNode streams = answer.putArray("streams");
            group.getStreamNames().forEach(streams::add);
            answer.put("readers", group.getOnlineReaders().size());
            answer.put("unread", group.getMetrics().unreadBytes());
        }
    }

    private void deleteReaderGroup() {
        try (ReaderGroupManager groups = ReaderGroupManager.withScope(scope, client)) {
            groups.deleteReaderGroup(request.get("group").asText());
        }
    }

    // ---- writing

    private void write() throws Exception {
        switch (request.get("format").asText()) {
            case "avro" -> {
                Schema schema = new Schema.Parser().parse(request.get("schema").asText());
                Serializer<Object> serializer = request.get("framed").asBoolean()
                        ? SerializerFactory.avroSerializer(registry(SerializationFormat.Avro), AvroSchema.of(schema))
                        : new PlainAvro(schema);
                writeAll(serializer, event -> new GenericDatumReader<>(schema).read(null,
                        DecoderFactory.get().jsonDecoder(schema, event.toString())));
            }
            case "json" -> {
                JSONSchema<Object> schema = JSONSchema.of(
                        request.get("type").asText(), request.get("schema").asText(), Object.class);
                writeAll(SerializerFactory.jsonSerializer(registry(SerializationFormat.Json), schema), event -> event);
            }
            case "protobuf" -> {
                String type = request.get("type").asText();
                FileDescriptorSet files = descriptors();
                Descriptor message = message(files, type);
                Serializer<DynamicMessage> serializer = SerializerFactory.protobufSerializer(
                        registry(SerializationFormat.Protobuf), ProtobufSchema.of(type, files));
                writeAll(serializer, event -> DynamicMessage.parseFrom(message, HEX.parseHex(event.asText())));
            }
            case "bytes" -> writeAll(new ByteBufferSerializer(),
                    event -> ByteBuffer.wrap(HEX.parseHex(event.asText())));
            case "text" -> writeAll(new UTF8StringSerializer(), JsonNode::asText);
            default -> throw new IllegalArgumentException("unknown format " + request.get("format"));
        }
    }

    /** The request's schema: a file descriptor set in base64. */
    private FileDescriptorSet descriptors() throws IOException {
        return FileDescriptorSet.parseFrom(Base64.getDecoder().decode(request.get("schema").asText()));
    }

    private static Descriptor message(FileDescriptorSet files, String type) throws IOException {
        Map<String, FileDescriptor> built = new HashMap<>();
        for (FileDescriptorProto file : files.getFileList()) {
            FileDescriptor[] needed = file.getDependencyList().stream().map(built::get).toArray(FileDescriptor[]::new);
            try {
                built.put(file.getName(), FileDescriptor.buildFrom(file, needed));
            } catch (DescriptorValidationException e) {
                throw new IOException(e);
            }
        }
        for (FileDescriptor file : built.values()) {
            for (Descriptor message : file.getMessageTypes()) {
                if (message.getFullName().equals(type)) {
                    return message;
                }
            }
        }
        throw new IOException("no message " + type);
    }

    private interface FromJson<T> {
        T of(JsonNode event) throws IOException;
    }

    private <T> void writeAll(Serializer<T> serializer, FromJson<T> conversion) throws Exception {
        EventWriterConfig config = EventWriterConfig.builder().build();
        try (EventStreamClientFactory factory = EventStreamClientFactory.withScope(scope, client)) {
            if (request.get("transactional").asBoolean()) {
                try (TransactionalEventStreamWriter<T> writer =
                             factory.createTransactionalEventWriter(stream, serializer, config)) {
                    Transaction<T> transaction = writer.beginTxn();
                    for (JsonNode event : request.get("events")) {
                        T value = conversion.of(event.get("value"));
                        if (event.hasNonNull("key")) {
                            transaction.writeEvent(event.get("key").asText(), value);
                        } else {
                            transaction.writeEvent(value);
                        }
                    }
                    transaction.commit();
                    while (transaction.checkStatus() == Transaction.Status.COMMITTING) {
                        Thread.sleep(10);
                    }
                    if (transaction.checkStatus() != Transaction.Status.COMMITTED) {
                        throw new IllegalStateException("transaction is " + transaction.checkStatus());
                    }
                }
            } else {
                try (EventStreamWriter<T> writer = factory.createEventWriter(stream, serializer, config)) {
                    for (JsonNode event : request.get("events")) {
                        T value = conversion.of(event.get("value"));
                        if (event.hasNonNull("key")) {
                            writer.writeEvent(event.get("key").asText(), value);
                        } else {
                            writer.writeEvent(value);
                        }
                    }
                    writer.flush();
                }
            }
        }
    }

    // ---- reading

    private void read(ArrayNode events) throws Exception {
        ToJson conversion = reader();
        try (BatchClientFactory factory = BatchClientFactory.withScope(scope, client)) {
            Iterator<SegmentRange> ranges = factory
                    .getSegments(Stream.of(scope, stream), StreamCut.UNBOUNDED, StreamCut.UNBOUNDED).getIterator();
            while (ranges.hasNext()) {
                SegmentRange range = ranges.next();
                try (SegmentIterator<ByteBuffer> iterator = factory.readSegment(range, new ByteBufferSerializer())) {
                    while (iterator.hasNext()) {
                        long offset = iterator.getOffset();
                        byte[] payload = bytes(iterator.next());
                        ObjectNode event = events.addObject();
                        event.put("segment", range.getSegmentId()).put("offset", offset);
                        event.put("payload", HEX.formatHex(payload));
                        event.set("value", conversion.of(ByteBuffer.wrap(payload)));
                    }
                }
            }
        }
    }

    private interface ToJson {
        JsonNode of(ByteBuffer payload) throws IOException;
    }

    private ToJson reader() {
        String schema = request.path("schema").asText(null);
        switch (request.get("format").asText()) {
            case "avro": {
                Schema reader = schema == null ? null : new Schema.Parser().parse(schema);
                Serializer<Object> generic = request.get("framed").asBoolean()
                        ? SerializerFactory.avroGenericDeserializer(
                                registry(null), reader == null ? null : AvroSchema.of(reader))
                        : new PlainAvro(reader);
                return payload -> avroAsJson(generic.deserialize(payload));
            }
            case "json": {
                Serializer<WithSchema<JsonNode>> generic = SerializerFactory.jsonGenericDeserializer(registry(null));
                return payload -> (JsonNode) generic.deserialize(payload).getObject();
            }
            case "protobuf": {
                Serializer<DynamicMessage> generic =
                        SerializerFactory.protobufGenericDeserializer(registry(null), null);
                return payload -> JSON.getNodeFactory().textNode(
                        HEX.formatHex(generic.deserialize(payload).toByteArray()));
            }
            case "any": {
                Serializer<String> any = SerializerFactory.deserializeAsJsonString(registry(null));
                return payload -> JSON.readTree(any.deserialize(payload));
            }
            case "bytes":
                return payload -> null;
            case "text":
                return payload -> JSON.getNodeFactory().textNode(new UTF8StringSerializer().deserialize(payload));
            default:
                throw new IllegalArgumentException("unknown format " + request.get("format"));
        }
    }

    /** Avro without a registry; the official serializers always write a header. */
    private record PlainAvro(Schema schema) implements Serializer<Object> {
        @Override
        public ByteBuffer serialize(Object value) {
            ByteArrayOutputStream output = new ByteArrayOutputStream();
            try {
                BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(output, null);
                new GenericDatumWriter<>(schema).write(value, encoder);
                encoder.flush();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            return ByteBuffer.wrap(output.toByteArray());
        }

        @Override
        public Object deserialize(ByteBuffer payload) {
            try {
                return new GenericDatumReader<>(schema).read(null,
                        DecoderFactory.get().binaryDecoder(bytes(payload), null));
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    private static JsonNode avroAsJson(Object value) throws IOException {
        Schema schema = ((GenericContainer) value).getSchema();
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        JsonEncoder encoder = EncoderFactory.get().jsonEncoder(schema, text);
        new GenericDatumWriter<>(schema).write(value, encoder);
        encoder.flush();
        return JSON.readTree(text.toByteArray());
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    // ---- Protobuf's JSON mapping, without servers

    /** For each case's messages: their JSON; or why they cannot be parsed; or why what was parsed has no JSON. */
    private static void protobufAsJson(JsonNode request, ArrayNode results) throws IOException {
        for (JsonNode each : request.get("cases")) {
            byte[] set = Base64.getDecoder().decode(each.get("schema").asText());
            FileDescriptorSet files = FileDescriptorSet.parseFrom(set);
            Descriptor type = message(files, each.get("type").asText());
            TypeRegistry.Builder types = TypeRegistry.newBuilder().add(type);
            for (FileDescriptor file : type.getFile().getDependencies()) {
                types.add(file.getMessageTypes());
            }
            JsonFormat.Printer printer = JsonFormat.printer().usingTypeRegistry(types.build())
                    .preservingProtoFieldNames().omittingInsignificantWhitespace();
            ArrayNode answers = results.addArray();
            for (JsonNode payload : each.get("messages")) {
                ObjectNode answer = answers.addObject();
                DynamicMessage parsed;
                try {
                    parsed = DynamicMessage.parseFrom(type, HEX.parseHex(payload.asText()));
                } catch (IOException | UninitializedMessageException e) {
                    answer.put("unreadable", e.getMessage());
                    continue;
                }
                try {
                    answer.put("json", printer.print(parsed));
                } catch (IOException | IllegalArgumentException e) {
                    answer.put("unprintable", String.valueOf(e.getMessage()));
                }
            }
        }
    }

    // ---- registry

    /** With a format, for a writer, which makes the group; without, for a reader. */
    private SerializerConfig registry(SerializationFormat format) {
        SchemaRegistryClientConfig.SchemaRegistryClientConfigBuilder registry = SchemaRegistryClientConfig.builder()
                .schemaRegistryUri(URI.create(request.get("registry").asText()));
        if (request.hasNonNull("trustStore")) {
            registry.certificate(request.get("trustStore").asText()).validateHostName(true);
        }
        if (request.hasNonNull("user")) {
            String token = request.get("user").asText() + ":" + request.get("password").asText();
            registry.authentication("Basic", Base64.getEncoder().encodeToString(token.getBytes(StandardCharsets.UTF_8)));
        }
        SerializerConfig.SerializerConfigBuilder builder = SerializerConfig.builder()
                .groupId(stream).namespace(scope).registryConfig(registry.build())
                .writeEncodingHeader(request.get("framed").asBoolean());
        if (format != null) {
            Compatibility compatibility = request.get("compatibility").asText().equals("AllowAny")
                    ? Compatibility.allowAny() : Compatibility.fullTransitive();
            builder.createGroup(format, compatibility, true).registerSchema(true).registerCodec(true);
            switch (request.get("codec").asText()) {
                case "none" -> { }
                case "gzip" -> builder.encoder(Codecs.GzipCompressor.getCodec());
                case "snappy" -> builder.encoder(Codecs.SnappyCompressor.getCodec());
                default -> throw new IllegalArgumentException("unknown codec " + request.get("codec"));
            }
        }
        return builder.build();
    }
}
