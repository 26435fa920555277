package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceReadInfo;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/** Collects what Spark needs of the table and has the service plan the scan: the read function and its partitions. */
final class PravegaScanBuilder implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownLimit {
  private final PravegaTable table;
  private final CaseInsensitiveStringMap options;
  private StructType required;
  private int limit = -1;

  PravegaScanBuilder(PravegaTable table, StructType schema, CaseInsensitiveStringMap options) {
    this.table = table;
    this.required = schema;
    this.options = options;
  }

  @Override
  public void pruneColumns(StructType requiredSchema) {
    required = requiredSchema;
  }

  @Override
  public boolean pushLimit(int limit) {
    this.limit = limit;
    return true;
  }

  @Override
  public boolean isPartiallyPushed() {
    return true;
  }

  @Override
  public Scan build() {
    ObjectNode arguments = Service.JSON.createObjectNode().put("columns", required.json()).put("limit", limit);
    arguments.set("options", Service.JSON.valueToTree(options.asCaseSensitiveMap()));
    JsonNode plan = table.call("plan_scan", arguments);
    StructType schema = PravegaTable.struct(plan.get("schema").asText());
    PythonDataSourceV2 source = PravegaTable.pythonSource();
    source.setReadInfo(readInfo(plan));
    Scan inner = ((org.apache.spark.sql.connector.catalog.SupportsRead)
        source.getTable(schema, null, Map.of())).newScanBuilder(options).build();
    return new PravegaScan(inner, plan);
  }

  private static PythonDataSourceReadInfo readInfo(JsonNode plan) {
    try {
      List<byte[]> partitions = new ArrayList<>();
      for (JsonNode partition : plan.get("partitions")) {
        partitions.add(partition.binaryValue());
      }
      return new PythonDataSourceReadInfo(
          plan.get("function").binaryValue(), CollectionConverters.asScala(partitions).toSeq());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
