package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.function.Supplier;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.datasources.v2.DataSourceRDD;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Map$;

/** A scan as the service plans it: Spark's Python readers run its function over its partitions. */
final class PravegaScan implements Scan, Batch, SupportsReportStatistics, SupportsRuntimeV2Filtering {
  private static final int MOST_TERMS_OF_JOINS = 20_000;

  private final PravegaTable table;
  private final String operation;
  private final ObjectNode arguments;
  private final boolean joined;
  private JsonNode plan;
  private MicroBatchStream stream;

  /** @param joined whether joins may tell which keys they need. */
  PravegaScan(PravegaTable table, String operation, ObjectNode arguments, boolean joined) {
    this.table = table;
    this.operation = operation;
    this.arguments = arguments;
    this.joined = joined;
  }

  /** Planned as soon as Spark asks for the columns of a batch, without its tasks if they take long to plan. */
  private synchronized JsonNode plan() {
    if (plan == null) {
      plan = table.planScan(operation, arguments);
    }
    return plan;
  }

  /** The number of rows, where it is all that is asked for and nothing has to be read to find it. */
  OptionalLong known() {
    JsonNode known = plan().get("known");
    return known.isNull() ? OptionalLong.empty() : OptionalLong.of(known.asLong());
  }

  private synchronized JsonNode tasks() {
    plan = planned(plan(), arguments, () -> table.planScan(operation, arguments));
    return plan.get("tasks");
  }

  /** The plan of a scan that is run: EXPLAIN needs less. What it needs to know before, tasks search for. */
  static JsonNode planned(JsonNode plan, ObjectNode arguments, Supplier<JsonNode> again) {
    while (plan.get("tasks").isNull()) {
      arguments.set("found", search(plan.get("search")));
      plan = again.get();
    }
    return plan;
  }

  private static ArrayNode search(JsonNode tasks) {
    ArrayNode found = Service.JSON.createArrayNode();
    if (!tasks.isNull()) {
      new DataSourceRDD(
          SparkContext.getOrCreate(), SparkLine.partitions(partitions(tasks)), readerFactory(tasks), false,
          Map$.MODULE$.empty())
          .toJavaRDD().map(row -> row.getString(0)).collect().forEach(found::add);
    }
    return found;
  }

  @Override
  public StructType readSchema() {
    return PravegaTable.struct(stream != null ? arguments.get("columns").asText() : plan().get("schema").asText());
  }

  @Override
  public String description() {
    return stream != null ? "stream of " + table.name() : plan().get("description").asText();
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    boolean realTime = stream instanceof PravegaTableStream tableStream && tableStream.isRealTime();
    boolean columns = stream != null ? !realTime : plan().get("columnar").asBoolean();
    return columns ? ColumnarSupportMode.SUPPORTED : ColumnarSupportMode.UNSUPPORTED;
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    CustomMetric[] python = PythonWorkers.metrics();
    CustomMetric[] all = Arrays.copyOf(python, python.length + 2);
    all[python.length] = new BadEventsMetric();
    all[python.length + 1] = new LeftOutMetric();
    return all;
  }

  /** The key columns by whose values the other side of a join can leave out entries, before they are read. */
  @Override
  public NamedReference[] filterAttributes() {
    if (stream != null || !joined || !table.takesUpdates() || arguments.has("aggregation")) {
      return new NamedReference[0];
    }
    List<String> columns = Arrays.asList(PravegaTable.struct(arguments.get("columns").asText()).fieldNames());
    return Arrays.stream(table.rowKey()).filter(key -> columns.contains(key.fieldNames()[0]))
        .toArray(NamedReference[]::new);
  }

  /** Plans anew with what Spark has found out about keys since it planned the query. */
  @Override
  public synchronized void filter(Predicate[] found) {
    arguments.put("every", CatalogV2Util.v2ColumnsToStructType(table.columns()).json());
    arguments.set("of_joins", PushedConditions.json(found, MOST_TERMS_OF_JOINS));
    plan = null;
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    if (arguments.has("conditions")) {
      throw new IllegalStateException("Spark pushes no conditions into streams, and no stream evaluates any");
    }
    arguments.put("checkpoint", checkpointLocation);
    stream = operation.equals("plan_changes")
        ? new PravegaChangesStream(table, arguments)
        : new PravegaTableStream(table, arguments);
    return stream;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    return partitions(tasks());
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    ColumnarReaders readers = readerFactory(tasks());
    return arguments.path("limit").asInt(-1) < 0 ? readers : new DrainingReaderFactory(readers);
  }

  static InputPartition[] partitions(JsonNode tasks) {
    JsonNode planned = tasks.get("partitions");
    InputPartition[] partitions = new InputPartition[planned.size()];
    for (int index = 0; index < partitions.length; index++) {
      partitions[index] = new PythonInputPartition(index, bytes(planned.get(index)));
    }
    return partitions;
  }

  static ColumnarReaders readerFactory(JsonNode tasks) {
    int columns = PravegaTable.struct(tasks.get("schema").asText()).length();
    StructType output = PravegaTable.struct(tasks.get("output").asText());
    ColumnarReaders python = pythonReaders(tasks, output, Map.of());
    return output.length() == columns ? python : new CountingReaderFactory(python, columns);
  }

  static PartitionReaderFactory realTimeReaderFactory(JsonNode tasks) {
    StructType output = PravegaTable.struct(tasks.get("output").asText());
    // Makes workers send each batch of rows at once, and not when a buffer is full.
    ColumnarReaders python = pythonReaders(tasks, output, Map.of("SPARK_PIPELINED_UDF", "1"));
    return new RealTimeReaderFactory(python, PravegaTable.struct(tasks.get("schema").asText()));
  }

  private static ColumnarReaders pythonReaders(JsonNode tasks, StructType output, Map<String, String> environment) {
    return new PythonReaders(new PythonTask(
        PythonWorkers.source(tasks.get("python").asText(), environment), bytes(tasks.get("function")),
        "read_from_data_source", UserDefinedPythonDataSource.readInputSchema(), output, PythonWorkers.artifacts()));
  }

  @Override
  public Statistics estimateStatistics() {
    return new Statistics() {
      @Override
      public OptionalLong sizeInBytes() {
        return stream != null ? OptionalLong.empty() : OptionalLong.of(plan().get("bytes").asLong());
      }

      @Override
      public OptionalLong numRows() {
        return OptionalLong.empty();
      }
    };
  }

  static byte[] bytes(JsonNode base64) {
    try {
      return base64.binaryValue();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
