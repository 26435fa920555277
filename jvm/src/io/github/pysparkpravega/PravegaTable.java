package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.Supplier;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** One stream as the catalog service described it; scans and writes run through Spark's own Python data source. */
final class PravegaTable implements StagedTable, SupportsRead, SupportsWrite, SupportsMetadataColumns,
    SupportsRowLevelOperations, EvolvingTable, TruncatableTable {
  /** Those that change what columns a table has. */
  static final Set<String> COLUMN_OPTIONS = Set.of("mode", "schema-version");

  /** In the options of a streaming read: all hidden columns follow those of the table. */
  static final String WITH_HIDDEN_COLUMNS = "pyspark-pravega.with-hidden-columns";

  private final PravegaService service;
  private final Identifier ident;
  private final String called;
  private final Column[] asked;
  private final Supplier<JsonNode> creation;
  private volatile JsonNode description;
  private volatile boolean madeForStream;
  private CaseInsensitiveStringMap checked = CaseInsensitiveStringMap.empty();
  private CaseInsensitiveStringMap followed = CaseInsensitiveStringMap.empty();
  private final String version = UUID.randomUUID().toString();
  private JsonNode ends = NullNode.getInstance();

  PravegaTable(PravegaService service, Identifier ident, JsonNode description) {
    this.service = service;
    this.ident = ident;
    this.called = description.get("name").asText();
    this.description = description;
    this.asked = null;
    this.creation = null;
  }

  /**
   * A new table of toTable, which is made when its query starts, or when it is used before. Spark would make it without
   * the query's options; they come with the first micro-batch. Until then it has the columns that Spark asks for.
   */
  PravegaTable(
      PravegaService service, Identifier ident, String called, Column[] asked, Supplier<JsonNode> creation) {
    this.service = service;
    this.ident = ident;
    this.called = called;
    this.asked = asked;
    this.creation = creation;
    this.madeForStream = true;
  }

  @Override
  public String name() {
    return called;
  }

  private JsonNode description() {
    make();
    return description;
  }

  /** Makes the table, if it is one that is yet to be made. */
  void make() {
    if (description == null) {
      synchronized (creation) {
        description = description == null ? creation.get() : description;
      }
    }
  }

  /** Return what the progress of a query calls its sink. */
  @Override
  public String toString() {
    return name();
  }

  /**
   * Another stream of the same name is another table: Spark refuses to go on with a plan for the old one.
   * Null, which Spark does not compare, for a user who may not ask which stream it is.
   */
  @Override
  public String id() {
    return description().get("id").textValue();
  }

  /** Never twice the same, so that Spark loads the table once for every query, and all its scans end at one tail. */
  @Override
  public String version() {
    return version;
  }

  @Override
  public Column[] columns() {
    return description == null
        ? asked : SparkLine.columns(struct(description.get("schema").asText()));
  }

  /** The primary key, which nothing checks: it tells the rows of a table of changes. */
  @Override
  public Constraint[] constraints() {
    NamedReference[] columns = rowKey();
    return columns.length == 0
        ? new Constraint[0]
        : new Constraint[] {Constraint.primaryKey("primary_key", columns).enforced(false).build()};
  }

  @Override
  public Map<String, String> properties() {
    return Service.texts(description().get("properties"));
  }

  @Override
  public Set<TableCapability> capabilities() {
    // Truncation and overwrite are declared so that INSERT OVERWRITE reaches our refusal, which says what to do.
    return new Capabilities(this::isStreamed, TableCapability.BATCH_READ, TableCapability.BATCH_WRITE,
        TableCapability.STREAMING_WRITE, TableCapability.TRUNCATE, TableCapability.OVERWRITE_BY_FILTER,
        TableCapability.OVERWRITE_DYNAMIC, TableCapability.AUTOMATIC_SCHEMA_EVOLUTION);
  }

  @Override
  public boolean supportsColumnChange(TableChange.ColumnChange change) {
    ObjectNode arguments = Service.JSON.createObjectNode();
    TableChanges.describe(change, arguments.putObject("change"));
    return call("takes_change", arguments).asBoolean();
  }

  private boolean isOfChanges() {
    return description().get("of_changes").asBoolean();
  }

  private boolean isStreamed() {
    if (!isOfChanges() && !description().get("events_are_rows").asBoolean()) {
      refuse("readStream");
    }
    return true;
  }

  @Override
  public MetadataColumn[] metadataColumns() {
    List<MetadataColumn> columns = new ArrayList<>();
    for (JsonNode column : description().get("metadata_columns")) {
      columns.add(new HiddenColumn(column.get("name").asText(),
          DataType.fromJson(column.get("type").asText()), column.get("nullable").asBoolean(),
          column.get("comment").asText()));
    }
    return columns.toArray(new MetadataColumn[0]);
  }

  private record HiddenColumn(String name, DataType dataType, boolean isNullable, String comment)
      implements MetadataColumn {}

  @Override
  public PravegaScanBuilder newScanBuilder(CaseInsensitiveStringMap asked) {
    StructType schema = CatalogV2Util.v2ColumnsToStructType(columns());
    if (asked.containsKey(WITH_HIDDEN_COLUMNS)) {
      for (MetadataColumn hidden : metadataColumns()) {
        schema = schema.add(hidden.name(), hidden.dataType(), hidden.isNullable());
      }
    }
    CaseInsensitiveStringMap options = given(asked);
    return isOfChanges()
        ? new PravegaScanBuilder(this, schema, options, "plan_changes")
        : new PravegaScanBuilder(this, schema, options, "plan_scan");
  }

  /** The options of a read that are not the adapter's own. */
  static CaseInsensitiveStringMap given(CaseInsensitiveStringMap options) {
    if (!options.containsKey(WITH_HIDDEN_COLUMNS)) {
      return options;
    }
    Map<String, String> given = new HashMap<>(options.asCaseSensitiveMap());
    given.remove(WITH_HIDDEN_COLUMNS);
    return new CaseInsensitiveStringMap(given);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    if (madeForStream) {
      madeForStream = false;
      ObjectNode arguments = Service.JSON.createObjectNode().put("schema", info.schema().json());
      arguments.put("output_mode", PravegaStreamingWrite.outputMode(info));
      arguments.set("options", Service.pairs(info.options().asCaseSensitiveMap()));
      description = call("settle_table", arguments);
    }
    return new PravegaWriteBuilder(this, info);
  }

  @Override
  public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
    if (!takesUpdates()) {
      refuse(info.command().toString());
    }
    return () -> new PravegaRowChanges(this, info.command());
  }

  @Override
  public boolean truncateTable() {
    finish("truncate_table", Service.JSON.createObjectNode());
    return true;
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return new CustomTaskMetric[0];
  }

  @Override
  public void commitStagedChanges() {}

  @Override
  public void abortStagedChanges() {
    finish("undo_creation", Service.JSON.createObjectNode().put("id", id()));
  }

  boolean isOf(Identifier other) {
    return ident.equals(other);
  }

  void refuse(String statement) {
    ObjectNode arguments = PravegaCatalog.arguments(ident).put("statement", statement);
    if (description != null) {
      arguments.set("table", description.get("table"));
    }
    service.call("refuse", arguments);
  }

  /** Refuses an output mode. What a new table of toTable takes is known only when its query's options come. */
  void checkOutputMode(String mode) {
    if (!madeForStream && !mode.equals("append") && !(mode.equals("update") && takesUpdates())) {
      refuse("writeStream.outputMode('" + mode + "')");
    }
  }

  /** Checks the options of a streaming read, once: Spark analyzes what is made of it again and again. */
  synchronized void checkReadOptions(CaseInsensitiveStringMap options) {
    if (options.equals(checked)) {
      return;
    }
    ObjectNode arguments = Service.JSON.createObjectNode();
    arguments.set("options", Service.pairs(options.asCaseSensitiveMap()));
    if (isOfChanges()) {
      call("limits_of_changes", arguments);
    } else {
      callOfStream("limits_of_stream", arguments.put("columns", description().get("schema").asText()));
    }
    checked = options;
  }

  /** Spark before 4.3 does not load the table again for these options, and would go on with the columns that it has. */
  synchronized void checkColumnOptions(CaseInsensitiveStringMap options) {
    if (COLUMN_OPTIONS.stream().anyMatch(options::containsKey) && !options.equals(followed)) {
      ObjectNode arguments = Service.JSON.createObjectNode();
      arguments.set("options", Service.pairs(options.asCaseSensitiveMap()));
      call("check_column_options", arguments);
      followed = options;
    }
  }

  /** Whether rows that are written replace those with the same keys. */
  boolean takesUpdates() {
    return description().get("takes_updates").asBoolean();
  }

  /** Calls the service about this table, with the description it gave when the table was loaded. */
  JsonNode call(String operation, ObjectNode arguments) {
    arguments.set("table", description().get("table"));
    return service.call(operation, arguments);
  }

  NamedReference[] rowKey() {
    return references(description().get("row_key"));
  }

  /** Whether a change of this table is one of a row that a key tells, and not a row of its own. */
  boolean hasRowKey() {
    return !description().get("row_key").isEmpty();
  }

  /** As call, whatever interrupts the thread. */
  JsonNode finish(String operation, ObjectNode arguments) {
    arguments.set("table", description().get("table"));
    return service.finish(operation, arguments);
  }

  /** As call, once more if the service ends meanwhile: a streaming query need not fail for that. */
  JsonNode repeat(String operation, ObjectNode arguments) {
    arguments.set("table", description().get("table"));
    return service.repeat(operation, arguments);
  }

  /** As repeat, about the stream as it was when the table was loaded. */
  JsonNode callOfStream(String operation, ObjectNode arguments) {
    return repeat(operation, arguments.put("id", id()));
  }

  /** Plans a scan that ends where the other scans of this table in the same query end. */
  synchronized JsonNode planScan(String operation, ObjectNode arguments) {
    arguments.put("cores", SparkSession.active().leafNodeDefaultParallelism()).set("ends", ends);
    JsonNode plan = call(operation, arguments);
    ends = plan.get("ends");
    return plan;
  }

  static NamedReference[] references(JsonNode names) {
    List<NamedReference> columns = new ArrayList<>();
    names.forEach(column -> columns.add(Expressions.column("`" + column.asText().replace("`", "``") + "`")));
    return columns.toArray(new NamedReference[0]);
  }

  static StructType struct(String json) {
    return (StructType) DataType.fromJson(json);
  }
}
