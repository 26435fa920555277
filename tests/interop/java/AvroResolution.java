import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HexFormat;
import java.util.IdentityHashMap;
import java.util.Set;
import org.apache.avro.Resolver;
import org.apache.avro.Schema;
import org.apache.avro.SchemaNormalization;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.io.JsonEncoder;

/**
 * Says what Java's Avro, of the version that Spark has, makes of values under another schema.
 *
 * Each line of input is a JSON array of cases, each line of output the array of their answers:
 *
 *   {"writer": SCHEMA, "reader": SCHEMA, "values": [VALUE, ...]}  values in Avro's JSON encoding
 *   {"writer": SCHEMA, "reader": SCHEMA, "events": [HEX, ...]}    data in Avro's binary encoding
 *
 *   {"normalized": SCHEMA}                                        answered by "canonical" and "fingerprint"
 *
 * An answer has for each of them "event" (the data in hexadecimal) and "resolved" (the value under the reader's schema,
 * in Avro's JSON encoding) or "refused"; and "doubtful": whether some part of the schemas does not resolve, whatever the
 * values are. A case that cannot be done at all has "error" alone.
 */
public class AvroResolution {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ArrayNode answer = JSON.createArrayNode();
            for (JsonNode each : JSON.readTree(line)) {
                answer.add(answer(each));
            }
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    private static ObjectNode answer(JsonNode request) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            if (request.has("normalized")) {
                Schema schema = new Schema.Parser().parse(request.get("normalized").toString());
                answer.put("canonical", SchemaNormalization.toParsingForm(schema));
                byte[] fingerprint = SchemaNormalization.parsingFingerprint("CRC-64-AVRO", schema);
                return answer.put("fingerprint", HEX.formatHex(fingerprint));
            }
            Schema writer = new Schema.Parser().parse(request.get("writer").toString());
            Schema reader = new Schema.Parser().parse(request.get("reader").toString());
            answer.put("doubtful", fails(Resolver.resolve(writer, reader), Collections.newSetFromMap(new IdentityHashMap<>())));
            ArrayNode events = answer.putArray("events");
            for (JsonNode value : request.path("values")) {
                events.addObject().put("event", HEX.formatHex(written(writer, value)));
            }
            for (JsonNode event : request.path("events")) {
                events.addObject().put("event", event.asText());
            }
            for (JsonNode event : events) {
                try {
                    byte[] data = HEX.parseHex(event.get("event").asText());
                    ((ObjectNode) event).set("resolved", resolved(writer, reader, data));
                } catch (Exception | StackOverflowError e) {
                    ((ObjectNode) event).put("refused", e.toString());
                }
            }
        } catch (Exception | StackOverflowError e) {
            answer.removeAll();
            answer.put("error", e.toString());
        }
        return answer;
    }

    /** Whether an action or one below it is an error. */
    private static boolean fails(Resolver.Action action, Set<Resolver.Action> seen) {
        if (action == null || !seen.add(action)) {
            return false;
        }
        if (action instanceof Resolver.ErrorAction) {
            return true;
        }
        if (action instanceof Resolver.EnumAdjust) {
            for (int symbol : ((Resolver.EnumAdjust) action).adjustments) {
                if (symbol < 0) {
                    return true;
                }
            }
        }
        Resolver.Action[] below = {};
        if (action instanceof Resolver.Container) {
            below = new Resolver.Action[] {((Resolver.Container) action).elementAction};
        } else if (action instanceof Resolver.RecordAdjust) {
            below = ((Resolver.RecordAdjust) action).fieldActions;
        } else if (action instanceof Resolver.WriterUnion) {
            below = ((Resolver.WriterUnion) action).actions;
        } else if (action instanceof Resolver.ReaderUnion) {
            below = new Resolver.Action[] {((Resolver.ReaderUnion) action).actualAction};
        }
        for (Resolver.Action each : below) {
            if (fails(each, seen)) {
                return true;
            }
        }
        return false;
    }

    private static byte[] written(Schema schema, JsonNode value) throws IOException {
        Object datum = new GenericDatumReader<>(schema).read(null,
                DecoderFactory.get().jsonDecoder(schema, value.toString()));
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(output, null);
        new GenericDatumWriter<>(schema).write(datum, encoder);
        encoder.flush();
        return output.toByteArray();
    }

    private static JsonNode resolved(Schema writer, Schema reader, byte[] data) throws IOException {
        BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(data, null);
        Object datum = new GenericDatumReader<>(writer, reader).read(null, decoder);
        if (!decoder.isEnd()) {
            throw new IOException("bytes are left");
        }
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        JsonEncoder encoder = EncoderFactory.get().jsonEncoder(reader, text);
        new GenericDatumWriter<>(reader).write(datum, encoder);
        encoder.flush();
        return JSON.readTree(text.toByteArray());
    }
}
