import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/**
 * Runs queries of Flink SQL as batches in this process; `flink.py` describes it.
 *
 * A leaf of a row is null or a text, bytes are hexadecimal, a row is a list of its values, a map is its keys and values.
 */
public final class Flink {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Flink() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Whatever a library prints must not mix with the answers.
        System.setOut(System.err);
        TableEnvironment tables = TableEnvironment.create(EnvironmentSettings.inBatchMode());
        tables.getConfig().set("table.local-time-zone", "UTC");
        tables.getConfig().set("parallelism.default", "1");
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                TableResult result = tables.executeSql(JSON.readTree(line).get("query").asText());
                answer.set("types", JSON.valueToTree(result.getResolvedSchema().getColumnDataTypes().stream()
                        .map(type -> type.getLogicalType().getTypeRoot().name()).toList()));
                answer.set("rows", JSON.valueToTree(rows(result)));
            } catch (Exception | LinkageError | AssertionError e) {
                e.printStackTrace();
                StringBuilder causes = new StringBuilder();
                for (Throwable cause = e; cause != null; cause = cause.getCause()) {
                    causes.append(cause).append('\n');
                }
                answer.put("error", causes.toString());
            }
            answers.println(answer);
        }
        System.exit(0);
    }

    private static List<Object> rows(TableResult result) throws Exception {
        List<Object> shown = new ArrayList<>();
        try (CloseableIterator<Row> rows = result.collect()) {
            while (rows.hasNext()) {
                shown.add(show(rows.next()));
            }
        }
        return shown;
    }

    private static Object show(Object value) {
        if (value instanceof Row row) {
            return showAll(IntStream.range(0, row.getArity()).mapToObj(row::getField).toList());
        } else if (value instanceof Map<?, ?> map) {
            return List.of(showAll(map.keySet()), showAll(map.values()));
        } else if (value instanceof byte[] bytes) {
            return HexFormat.of().formatHex(bytes);
        } else if (value instanceof Object[] array) {
            return showAll(Arrays.asList(array));
        } else if (value instanceof BigDecimal decimal) {
            return decimal.toPlainString();
        }
        return value == null ? null : value.toString();
    }

    private static List<Object> showAll(Collection<?> values) {
        List<Object> shown = new ArrayList<>();
        values.forEach(value -> shown.add(show(value)));
        return shown;
    }
}
