package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonPartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/** A scan as the service planned it: Spark's Python readers run its function over its partitions. */
final class PravegaScan implements Scan, Batch, SupportsReportStatistics {
  private final PravegaTable table;
  private final JsonNode plan;
  private final StructType schema;

  PravegaScan(PravegaTable table, JsonNode plan) {
    this.table = table;
    this.plan = plan;
    this.schema = PravegaTable.struct(plan.get("schema").asText());
  }

  @Override
  public StructType readSchema() {
    return schema;
  }

  @Override
  public String description() {
    return plan.get("description").asText();
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return ColumnarSupportMode.UNSUPPORTED;
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    CustomMetric[] python = PythonWorkers.source().createPythonMetrics();
    CustomMetric[] all = Arrays.copyOf(python, python.length + 1);
    all[python.length] = new BadEventsMetric();
    return all;
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  /** Spark takes any changelog for one that can be streamed. */
  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    table.refuse("STREAM ... CHANGES");
    return null;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    JsonNode planned = plan.get("partitions");
    InputPartition[] partitions = new InputPartition[planned.size()];
    for (int index = 0; index < partitions.length; index++) {
      partitions[index] = new PythonInputPartition(index, bytes(planned.get(index)));
    }
    return partitions;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    StructType output = PravegaTable.struct(plan.get("output").asText());
    PartitionReaderFactory python = new PythonPartitionReaderFactory(
        PythonWorkers.source(), bytes(plan.get("function")), output, PythonWorkers.artifacts(), Option.empty());
    return output.length() == schema.length() ? python : new CountingReaderFactory(python, schema);
  }

  @Override
  public Statistics estimateStatistics() {
    return new Statistics() {
      @Override
      public OptionalLong sizeInBytes() {
        return OptionalLong.of(plan.get("bytes").asLong());
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
