package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import io.github.pysparkpravega.Replies.*;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.StructType;

/**
 * The requests to the catalog service, and what is in them. The dataclasses of catalog/protocol/ have the same names
 * and fields, and say what these mean. `table` is that of the table's description.
 */
interface Requests {
  // catalog/protocol/table_requests.py
  record DefaultNamespace() implements Request<String[]> {}
  record ListNamespaces() implements Request<String[]> {}
  record NamespaceExists(String[] namespace) implements Request<Boolean> {}
  record LoadNamespace(String[] namespace) implements Request<Map<String, String>> {}
  record CreateNamespace(String[] namespace, Map<String, String> properties) implements Request<Void> {}
  record NamespaceChange(String property, @OrNull String value) {}
  record AlterNamespace(String[] namespace, List<NamespaceChange> changes) implements Request<Void> {}
  record DropNamespace(String[] namespace, boolean cascade) implements Request<Boolean> {}

  // catalog/protocol/table_requests.py
  record ListTables(String[] namespace) implements Request<String[]> {}
  record ListRelations(String[] namespace) implements Request<Relations> {}
  record TimeTravel(String unit, String text) {}

  /** The reply has the fields of a TableDescription, a MetadataDescription or a ViewDefinition. */
  record LoadTable(String[] namespace, String name, Map<String, String> options, boolean writing, @OrNull TimeTravel at,
      boolean orView, boolean caseSensitive) implements Request<JsonNode> {}
  record DescribeLake(String table) implements Request<String> {}
  record ReadMetadata(String[] namespace, String name, Map<String, String> options) implements Request<MetadataRows> {}
  record LoadSource(Map<String, String> options, @OrNull StructType schema, boolean writing, List<String> catalogs)
      implements Request<SourceDescription> {}
  record ChangeRange(String unit, @OrNull String start, @OrNull String end, boolean startInclusive,
      boolean endInclusive, boolean net) {}
  record LoadChangelog(String[] namespace, String name, Map<String, String> options, ChangeRange range)
      implements Request<TableDescription> {}
  record TableExists(String[] namespace, String name, boolean creating) implements Request<Boolean> {}
  record HintOfTable(String[] namespace, String name) implements Request<String> {}
  record Constraint(String kind, String text, boolean enforced, List<String> columns) {}
  record CreateTable(String[] namespace, String name, StructType schema, List<String> partitions,
      List<Constraint> constraints, Map<String, String> properties, boolean adopt, Map<String, String> defaults)
      implements Request<TableDescription> {}
  record UndoCreation(String table, @OrNull String id) implements Request<Void> {}
  record SettleTable(String table, StructType schema, Map<String, String> options, String outputMode)
      implements Request<TableDescription> {}
  record TableChange(String kind, @OrNull String property, @OrNull String value, String[] column,
      @OrNull StructType field, @OrNull String after, @OrNull String initial) {}
  record AlterTable(String[] namespace, String name, List<TableChange> changes) implements Request<TableDescription> {}
  record DropTable(String[] namespace, String name) implements Request<Boolean> {}
  record TakesChange(String table, TableChange change) implements Request<Boolean> {}
  record LoadSegments(String[] namespace, String name) implements Request<KeySpace> {}
  record TruncateTable(String table) implements Request<Void> {}
  record Refuse(String[] namespace, String name, String statement, @OrNull String table) implements Request<Void> {}

  record ListViews(String[] namespace) implements Request<String[]> {}
  record PutView(String[] namespace, String name, ViewDefinition view, boolean make, boolean replace, boolean streaming)
      implements Request<Void> {}
  record RenameView(String[] namespace, String name, String[] newNamespace, String newName) implements Request<Void> {}
  record DropView(String[] namespace, String name) implements Request<Boolean> {}

  // catalog/protocol/procedure_requests.py
  record ListProcedures(String[] namespace) implements Request<String[]> {}
  record LoadProcedure(String[] namespace, String name, @OrNull StructType given)
      implements Request<ProcedureDescription> {}
  record QueryFacts(String server, String spark, boolean ownConf, boolean streaming, StructType schema,
      Map<String, String> settings, String catalog, String[] namespace) {}
  record TasksDone(String pending, List<String> rows, @OrNull String error) {}
  record CallProcedure(String[] namespace, String name, Map<String, String> given, @OrNull QueryFacts facts,
      @OrNull TasksDone done) implements Request<MetadataRows> {}

  record QueryReport(String scope, String name, long epoch, String state, @OrNull String error,
      @OrNull String progress, boolean bounded, boolean stopped) {}
  record HaveEnds(List<Map<String, String>> reads) implements Request<Boolean> {}
  record TendQueries(String server, List<QueryReport> reports) implements Request<QueryCommands> {}
  record ReleaseQueries(String server) implements Request<Void> {}
  record WakeQueries() implements Request<Void> {}

  // catalog/protocol/scan_requests.py
  record Term(String name, int children, @OrNull String type, @OrNull String value) {}
  record Condition(List<Term> terms) {}
  record AggregateFunction(String name, String[] column) {}
  record Aggregation(List<AggregateFunction> functions, List<String[]> groups) {}
  record PlanScan(String table, StructType columns, Map<String, String> options, int limit, @OrNull JsonNode ends,
      int cores, @OrNull List<String> found, @OrNull Aggregation aggregation, @OrNull StructType every,
      List<Condition> conditions, List<Condition> ofJoins, @OrNull List<String> files)
      implements Request<PlannedRead> {}
  record NoteBorders(String table, List<Long> numbers) implements Request<Void> {}
  record CheckColumnOptions(String table, Map<String, String> options) implements Request<Void> {}
  record TakeConditions(String table, StructType columns, Map<String, String> options, List<Condition> conditions)
      implements Request<boolean[]> {}
  record TakeAggregation(String table, StructType columns, Map<String, String> options, Aggregation aggregation,
      Aggregation written) implements Request<Boolean> {}

  record StreamQuery(
      String table, @OrNull String id, StructType columns, Map<String, String> options, String checkpoint) {}
  record StartOfStream(StreamQuery query) implements Request<String> {}
  record LastOfStream(StreamQuery query) implements Request<String> {}
  record LimitsOfStream(StreamQuery query) implements Request<Limits> {}
  record EndOfMicroBatch(StreamQuery query, String since, @OrNull String last, Limits limits)
      implements Request<MicroBatchEnd> {}
  record KeptRows(@OrNull String known, List<String> files, int retain) {}
  record BatchRange(String since, String until, @OrNull KeptRows kept, @OrNull List<String> found) {}
  record PlanMicroBatch(StreamQuery query, BatchRange range) implements Request<PlannedRead> {}
  record PlanRealTime(StreamQuery query, String since) implements Request<PlannedRead> {}
  record EndOfRealTime(StreamQuery query, Map<String, String> reached) implements Request<String> {}
  record CommitMicroBatch(StreamQuery query, String until) implements Request<Void> {}
  record StopStream(String checkpoint) implements Request<Void> {}

  // catalog/protocol/insert_requests.py
  record BeginInsert(String table, StructType schema, int tasks, Map<String, String> options, boolean keyed)
      implements Request<InsertBegun> {}
  record CommitInsert(String table, InsertHandle insert, List<byte[]> messages, boolean again)
      implements Request<Long> {}
  record AbortInsert(String table, InsertHandle insert) implements Request<Void> {}
  record BeginEpoch(String table, StructType schema, int tasks, Map<String, String> options, boolean keyed,
      String query, String run, long epoch, String outputMode) implements Request<InsertBegun> {}
  record CommitEpoch(String table, InsertHandle insert, List<byte[]> messages, boolean again, String query, String run,
      long epoch, String offsets, @OrNull Long watermark) implements Request<Long> {}
  record BeginChanges(String table, int tasks, Map<String, String> options) implements Request<InsertBegun> {}
  record CommitChanges(String table, InsertHandle insert, List<byte[]> messages, boolean again, String statement,
      List<JsonNode> ends, @OrNull List<Condition> conditions) implements Request<Long> {}
  record BeginKeyedWrite(String table, StructType schema, Map<String, String> options)
      implements Request<InsertBegun> {}
}
