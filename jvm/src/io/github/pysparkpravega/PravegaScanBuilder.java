package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Collects what Spark needs of the table and has the service plan the scan: the read function and its partitions. */
final class PravegaScanBuilder implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownLimit {
  private final PravegaTable table;
  private final CaseInsensitiveStringMap options;
  private final String operation;
  private StructType required;
  private int limit = -1;

  PravegaScanBuilder(PravegaTable table, StructType schema, CaseInsensitiveStringMap options, String operation) {
    this.table = table;
    this.operation = operation;
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
    arguments.set("options", Service.pairs(options.asCaseSensitiveMap()));
    return new PravegaScan(table, operation, arguments);
  }
}
