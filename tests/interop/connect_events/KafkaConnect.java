package connect_events;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.debezium.connector.postgresql.data.Ltree;
import io.debezium.data.Envelope;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.jar.JarFile;
import org.apache.kafka.connect.data.Decimal;

/**
 * Writes events as Kafka Connect and Debezium do, with their own classes, and says what each value is.
 *
 * Reads one JSON request a line from standard input and answers each with one JSON line; `kafka_connect.py` describes
 * them.
 * A column's schema comes from the class that publishes its type, its encoded value from Debezium's own conversions
 * where they are public, the bytes from Connect's JsonConverter. What a value is (`meaning`) comes from the values of
 * java.time and java.math that it was made of.
 */
public final class KafkaConnect {
    private static final ObjectMapper JSON = new ObjectMapper();

    private KafkaConnect() {}

    /** Names of all semantic types that the packages of a jar publish. */
    private static List<String> published(Class<?> inJar, List<String> packages) throws Exception {
        List<String> names = new ArrayList<>();
        String jar = Path.of(inJar.getProtectionDomain().getCodeSource().getLocation().toURI()).toString();
        try (JarFile file = new JarFile(jar)) {
            for (String entry : file.stream().map(each -> each.getName()).sorted().toList()) {
                String name = entry.replace('/', '.');
                if (!name.endsWith(".class") || packages.stream().noneMatch(name::startsWith)) {
                    continue;
                }
                Class<?> found = Class.forName(name.substring(0, name.length() - ".class".length()));
                for (java.lang.reflect.Field field : found.getDeclaredFields()) {
                    if (List.of("LOGICAL_NAME", "SCHEMA_NAME").contains(field.getName())) {
                        field.setAccessible(true);
                        names.add((String) field.get(null));
                    }
                }
            }
        }
        return names;
    }

    private static void answer(JsonNode request, ObjectNode answer) throws Exception {
        switch (request.get("operation").asText()) {
            case "cases" -> answer.set("cases", new Events(request).ofAllKinds());
            case "generated" -> answer.set("cases",
                    new Events(request).generated(request.get("seed").asLong(), request.get("count").asInt()));
            case "published" -> answer.set("names", JSON.valueToTree(Kinds.joined(
                    published(Envelope.class, List.of("io.debezium.time.", "io.debezium.data.")),
                    published(Ltree.class, List.of("io.debezium.connector.postgresql.data.")),
                    published(Decimal.class, List.of("org.apache.kafka.connect.data.")))));
            default -> throw new IllegalArgumentException(request.get("operation").asText());
        }
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Whatever a library prints must not mix with the answers.
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer(JSON.readTree(line), answer);
            } catch (Exception | LinkageError e) {
                e.printStackTrace();
                answer.removeAll();
                answer.put("error", e.toString());
            }
            answers.println(answer);
        }
    }
}
