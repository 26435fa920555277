import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Array;
import java.math.BigDecimal;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.core.type.TypeReference;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/**
 * Runs Flink SQL on a cluster in this process; `flink.py` describes it.
 *
 * A leaf of a row is null or a text, bytes are hexadecimal, a row is a list of its values, a map is its keys and values.
 */
public final class Flink {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final MiniCluster cluster;
    private TableEnvironment session;

    private Flink(MiniCluster cluster) {
        this.cluster = cluster;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Whatever a library prints must not mix with the answers.
        System.setOut(System.err);
        Configuration configuration = new Configuration();
        configuration.setString("rest.bind-port", "0");
        MiniCluster cluster = new MiniCluster(new MiniClusterConfiguration.Builder().setConfiguration(configuration)
                .setNumTaskManagers(1).setNumSlotsPerTaskManager(8).build());
        cluster.start();
        Flink flink = new Flink(cluster);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                flink.answer(JSON.readTree(line), answer);
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

    private void answer(JsonNode request, ObjectNode answer) throws Exception {
        String text = request.path("text").asText();
        switch (request.get("operation").asText()) {
            case "batch" -> {
                TableResult result = connected(EnvironmentSettings.newInstance().inBatchMode(), Map.of()).executeSql(text);
                answer.set("types", JSON.valueToTree(result.getResolvedSchema().getColumnDataTypes().stream()
                        .map(type -> type.getLogicalType().getTypeRoot().name()).toList()));
                answer.set("rows", JSON.valueToTree(changes(result, Integer.MAX_VALUE).stream()
                        .map(change -> change.get(1)).toList()));
            }
            case "begin" -> {
                Map<String, String> settings =
                        JSON.convertValue(request.get("settings"), new TypeReference<Map<String, String>>() { });
                EnvironmentSettings.Builder mode = EnvironmentSettings.newInstance();
                session = connected("batch".equals(settings.get("execution.runtime-mode"))
                        ? mode.inBatchMode() : mode.inStreamingMode(), settings);
            }
            case "run" -> {
                TableResult result = session.executeSql(text);
                if (result.getJobClient().isPresent()) {
                    result.await();
                }
            }
            case "changes" -> answer.set("changes",
                    JSON.valueToTree(changes(session.executeSql(text), request.get("count").asInt())));
            case "start" -> {
                JobClient job = session.executeSql(text).getJobClient().orElseThrow();
                answer.put("job", job.getJobID().toHexString());
            }
            case "checkpoint" -> answer.put("path", cluster.triggerCheckpoint(JobID.fromHexString(text)).get());
            case "cancel" -> {
                cluster.cancelJob(JobID.fromHexString(text)).get();
                cluster.requestJobResult(JobID.fromHexString(text)).get();
            }
            default -> throw new IllegalArgumentException(request.toString());
        }
    }

    private TableEnvironment connected(EnvironmentSettings.Builder mode, Map<String, String> settings)
            throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("table.local-time-zone", "UTC");
        configuration.setString("parallelism.default", "1");
        settings.forEach(configuration::setString);
        URI address = cluster.getRestAddress().get();
        return StreamTableEnvironment.create(StreamExecutionEnvironment.createRemoteEnvironment(
                address.getHost(), address.getPort(), configuration), mode.build());
    }

    /** The first changes of a result, each with its kind; a job that has more is cancelled. */
    private static List<List<Object>> changes(TableResult result, int count) throws Exception {
        List<List<Object>> shown = new ArrayList<>();
        try (CloseableIterator<Row> rows = result.collect()) {
            while (shown.size() < count && rows.hasNext()) {
                Row row = rows.next();
                shown.add(List.of(row.getKind().shortString(), show(row)));
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
        } else if (value != null && value.getClass().isArray()) {
            return showAll(IntStream.range(0, Array.getLength(value)).mapToObj(i -> Array.get(value, i)).toList());
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
