package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.types.StructType;

/** Spark's Python scan with the service's description and statistics. */
final class PravegaScan implements Scan, SupportsReportStatistics {
  private final Scan inner;
  private final JsonNode plan;

  PravegaScan(Scan inner, JsonNode plan) {
    this.inner = inner;
    this.plan = plan;
  }

  @Override
  public StructType readSchema() {
    return inner.readSchema();
  }

  @Override
  public String description() {
    return plan.get("description").asText();
  }

  @Override
  public Batch toBatch() {
    return inner.toBatch();
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return inner.supportedCustomMetrics();
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return inner.columnarSupportMode();
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
}
