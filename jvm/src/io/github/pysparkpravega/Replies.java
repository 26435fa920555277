package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * The replies of the catalog service that are more than one value. The dataclasses of catalog/protocol/service_replies.py have
 * the same names and fields, and say what these mean. A JsonNode is what Java hands back, or reads by the type of a
 * column.
 */
interface Replies {
  record HiddenColumn(String name, DataType type, boolean nullable, String comment) implements MetadataColumn {
    @Override
    public DataType dataType() {
      return type;
    }

    @Override
    public boolean isNullable() {
      return nullable;
    }
  }

  record TableDescription(String name, StructType schema, Map<String, String> properties,
      Map<String, String> lineage, List<HiddenColumn> metadataColumns, String table, @OrNull String id,
      boolean eventsAreRows, List<String> rowKey, boolean takesUpdates, boolean writesChanges,
      boolean ofChanges) {
    TableDescription with(String key, String value) {
      Map<String, String> more = new HashMap<>(properties);
      more.put(key, value);
      return new TableDescription(name, schema, more, lineage, metadataColumns, table, id, eventsAreRows, rowKey,
          takesUpdates, writesChanges, ofChanges);
    }
  }
  record ViewDefinition(String text, StructType schema, @OrNull String catalog, String[] namespace,
      Map<String, String> settings, @OrNull String schemaMode, String[] queryColumns, Map<String, String> properties) {}
  record Relations(String[] tables, String[] views) {}
  record KeySpace(List<String> names, List<String> ends) {}
  record MetadataDescription(String name, StructType schema) {}
  record DriverStep(String kind, String subject, String text) {}
  record MetadataRows(JsonNode rows, @OrNull PlannedTasks tasks, @OrNull String pending,
      @OrNull List<DriverStep> steps) {}
  record Parameter(String name, DataType type, String comment, boolean optional) {}
  record ProcedureDescription(String name, StructType schema, String comment, List<Parameter> parameters,
      boolean startsQuery) {}
  record QueryStart(String scope, String name, long epoch, String query, String into, String checkpoint,
      String outputMode, boolean availableNow, long interval, Map<String, String> options,
      Map<String, String> settings, String catalog, String[] namespace, boolean repeats) {}
  record QueryStop(String scope, String name, long epoch, boolean atOnce) {}
  record QueryCommands(List<QueryStart> start, List<QueryStop> stop) {}
  record SourceDescription(Map<String, String> connection, String[] identifier, TableDescription table) {}
  record PlannedTasks(byte[] function, String python, List<byte[]> partitions, StructType schema, StructType output) {}
  record Lookup(int[] slots, String copy) implements Serializable {}
  record TaskFiles(String[] before, @OrNull String after, @OrNull Lookup lookup) implements Serializable {}
  record PlannedRows(int number, @OrNull String known, List<String> obsolete, List<List<TaskFiles>> tasks,
      @OrNull String folder) {}
  record PlannedRead(@OrNull PlannedTasks tasks, @OrNull PlannedTasks search, StructType schema, List<Long> affinities,
      long bytes, String description, @OrNull JsonNode ends, @OrNull PlannedRows rows, boolean columnar,
      @OrNull Long known) {}
  record InsertHandle(String kind, String id, int tasks, Map<String, String> options, @OrNull String seen) {}
  record InsertBegun(@OrNull InsertHandle insert, byte[] function, String python) {}
  record Limits(@OrNull Long maxBytes, @OrNull Long maxRows, @OrNull Long minRows, long maxDelayMs) {}
  record MicroBatchEnd(String offset, @OrNull String latest, Map<String, String> metrics) {}
}
