package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import io.github.pysparkpravega.Replies.*;
import io.github.pysparkpravega.Requests.*;
import java.util.*;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
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
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimeType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** One stream as the catalog service described it; scans and writes run through Spark's own Python data source. */
class PravegaTable implements StagedTable, SupportsRead, SupportsWrite, SupportsMetadataColumns,
    SupportsRowLevelOperations, EvolvingTable {
  /** Options that change which columns a table has. */
  static final Set<String> COLUMN_OPTIONS = Set.of("mode", "schema-version");

  /** An option of a streaming read by which all hidden columns follow those of the table. */
  static final String WITH_HIDDEN_COLUMNS = "pyspark-pravega.with-hidden-columns";

  /** The column that has the whole row for a statement that changes rows, see datasource/tables/hidden_columns.py. */
  static final String FORMER_ROW = "_former_row";

  static final String LAKE_STATE = "lake.state";
  private static final String TIMES = "spark.sql.timeType.enabled";

  private final PravegaService service;
  private final Identifier ident;
  private final String called;
  private final Column[] asked;
  private final Supplier<TableDescription> creation;
  private volatile TableDescription description;
  private volatile boolean madeForStream;
  private volatile boolean takesNewRows;
  private volatile boolean madeByStatement;
  private CaseInsensitiveStringMap checked = CaseInsensitiveStringMap.empty();
  private CaseInsensitiveStringMap followed = CaseInsensitiveStringMap.empty();
  private final String version = UUID.randomUUID().toString();
  private long loadedAt = System.nanoTime();
  private boolean changing;
  private JsonNode ends;

  PravegaTable(PravegaService service, Identifier ident, TableDescription description) {
    this.service = service;
    this.ident = ident;
    this.called = description.name();
    this.description = description;
    this.asked = null;
    this.creation = null;
  }

  /**
   * A new table of toTable, which is made when its query starts or when it is first used. Spark would make it without
   * the query's options, which come with the first micro-batch. Until then it has the columns that Spark asks for.
   */
  PravegaTable(
      PravegaService service, Identifier ident, String called, Column[] asked, Supplier<TableDescription> creation) {
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

  PravegaService service() {
    return service;
  }

  private TableDescription description() {
    make();
    return description;
  }

  /** Makes the table, if that is yet to be done. */
  void make() {
    if (description == null) {
      synchronized (creation) {
        description = description == null ? creation.get() : description;
      }
    }
  }

  /** Returns the name of the sink in a query's progress. */
  @Override
  public String toString() {
    return name();
  }

  /**
   * Another stream of the same name is another table: Spark refuses to continue with a plan for the old one.
   * Null, which Spark does not compare, for a user who may not ask which stream it is.
   */
  @Override
  public String id() {
    return description().id();
  }

  /** Never the same twice, so that Spark loads the table once for every query, and all its scans end at one tail. */
  @Override
  public String version() {
    return version;
  }

  @Override
  public Column[] columns() {
    return description == null ? asked : SparkLine.columns(description.schema());
  }

  /**
   * Returns the table for a statement that changes or removes rows. If these are written as changes, it has FORMER_ROW,
   * and Spark must not truncate it for a DELETE of all rows.
   */
  PravegaTable ofChanging() {
    if (!hasChangesByKey()) {
      return this;
    }
    PravegaTable table = new PravegaTable(service, ident, description);
    table.changing = true;
    return table;
  }

  /** Returns the table for DESCRIBE EXTENDED, with the state of its lake as a property. */
  PravegaTable ofDescribing() {
    return new PravegaTable(
        service, ident, description().with(LAKE_STATE, service.call(new DescribeLake(handle()))));
  }

  /** Returns when the statement loaded the table, by System.nanoTime. */
  long loadedAt() {
    return loadedAt;
  }

  /** Notes that the statement began earlier, and may have read the table since. */
  PravegaTable loadedAt(long earlier) {
    loadedAt = earlier;
    return this;
  }

  /** Returns the primary key, which nothing checks: it identifies the rows of a table of changes. */
  @Override
  public Constraint[] constraints() {
    NamedReference[] columns = rowKey();
    return columns.length == 0
        ? new Constraint[0]
        : new Constraint[] {Constraint.primaryKey("primary_key", columns).enforced(false).build()};
  }

  @Override
  public Map<String, String> properties() {
    return new PropertiesWithLineage(description().properties(), this::lineage);
  }

  Map<String, String> lineage() {
    return description().lineage();
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
    return service.call(new TakesChange(handle(), TableChanges.describe(change)));
  }

  boolean isOfChanges() {
    return description().ofChanges();
  }

  private boolean isStreamed() {
    if (!isOfChanges() && !description().eventsAreRows()) {
      refuse("readStream");
    }
    return true;
  }

  @Override
  public MetadataColumn[] metadataColumns() {
    List<MetadataColumn> hidden = new ArrayList<>(description().metadataColumns());
    if (changing) {
      StructType row = CharVarcharUtils.replaceCharVarcharWithStringInSchema(description.schema());
      hidden.add(new HiddenColumn(FORMER_ROW, row, true, "The row before the statement."));
    }
    return hidden.toArray(new MetadataColumn[0]);
  }

  @Override
  public PravegaScanBuilder newScanBuilder(CaseInsensitiveStringMap asked) {
    StructType schema = CatalogV2Util.v2ColumnsToStructType(columns());
    checkTimes(schema);
    if (asked.containsKey(WITH_HIDDEN_COLUMNS)) {
      for (MetadataColumn hidden : metadataColumns()) {
        schema = schema.add(hidden.name(), hidden.dataType(), hidden.isNullable());
      }
    }
    return new PravegaScanBuilder(this, schema, dropOwnOptions(asked));
  }

  /**
   * Refuses columns of type TIME, which Spark has only if a conf says so. Without it, Spark itself refuses to declare
   * one, but not to read or write one, and most of its functions fail.
   */
  private void checkTimes(StructType schema) {
    if (schema.existsRecursively(part -> part instanceof TimeType)
        && !Boolean.parseBoolean(SQLConf.get().getConfString(TIMES, "false"))) {
      refuse("A column of type TIME");
    }
  }

  /** Returns the options of a read without the adapter's own. */
  static CaseInsensitiveStringMap dropOwnOptions(CaseInsensitiveStringMap options) {
    if (!options.containsKey(WITH_HIDDEN_COLUMNS)) {
      return options;
    }
    Map<String, String> given = new HashMap<>(options.asCaseSensitiveMap());
    given.remove(WITH_HIDDEN_COLUMNS);
    return new CaseInsensitiveStringMap(given);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    checkTimes(info.schema());
    if (madeForStream) {
      madeForStream = false;
      description = service.call(new SettleTable(handle(), info.schema(), info.options().asCaseSensitiveMap(),
          PravegaStreamingWrite.outputMode(info)));
    }
    return new PravegaWriteBuilder(this, info);
  }

  @Override
  public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
    if (takesUpdates()) {
      return () -> new PravegaRowChanges(this, info.command());
    }
    if (!changing) {
      refuse(info.command().toString());
    }
    if (Arrays.asList(description.schema().fieldNames()).contains(FORMER_ROW)) {
      throw PravegaException.unchecked(new PravegaException("PRAVEGA_UNSUPPORTED_OPERATION", "0A000",
          info.command() + " is not possible on " + name() + ": it has a column " + FORMER_ROW
              + ", a name that the statement needs for the row before it.", null));
    }
    return () -> new PravegaRowChanges(this, info.command());
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return new CustomTaskMetric[0];
  }

  @Override
  public void commitStagedChanges() {}

  @Override
  public void abortStagedChanges() {
    service.finish(new UndoCreation(handle(), id()));
  }

  boolean isOf(Identifier other) {
    return ident.equals(other);
  }

  /** Notes that the statement that writes has made it, for which Spark overwrites what there is not. */
  void noteMadeByStatement() {
    madeByStatement = true;
  }

  boolean isMadeByStatement() {
    return madeByStatement;
  }

  /** Notes that it will be written by a query in real-time mode that replaces no rows. */
  void noteNewRows() {
    takesNewRows = true;
  }

  void refuse(String statement) {
    String loaded = description == null ? null : description.table();
    service.call(new Refuse(ident.namespace(), ident.name(), statement, loaded));
  }

  /** Refuses an output mode that the table does not take. A new table of toTable takes what its options say later. */
  void checkOutputMode(String mode) {
    if (!madeForStream && !mode.equals("append") && !(mode.equals("update") && (replacesRows() || takesNewRows))
        && !(mode.equals("complete") && hasChangesByKey())) {
      refuse("writeStream.outputMode('" + mode + "')");
    }
  }

  /** Checks the options of a streaming read, once: Spark analyzes the read again in every query that is made of it. */
  synchronized void checkReadOptions(CaseInsensitiveStringMap options) {
    if (options.equals(checked)) {
      return;
    }
    service.repeat(new LimitsOfStream(query(description().schema(), options.asCaseSensitiveMap(), "")));
    checked = options;
  }

  /** Checks options that Spark before 4.3 would ignore: it does not load the table again, and keeps its columns. */
  synchronized void checkColumnOptions(CaseInsensitiveStringMap options) {
    if (COLUMN_OPTIONS.stream().anyMatch(options::containsKey) && !options.equals(followed)) {
      service.call(new CheckColumnOptions(handle(), options.asCaseSensitiveMap()));
      followed = options;
    }
  }

  /** Returns whether a row that is written replaces the one with the same key, in whatever way. */
  private boolean replacesRows() {
    return takesUpdates() || hasChangesByKey();
  }

  /** Returns whether what is written are changes of rows with keys. */
  boolean hasChangesByKey() {
    return description().writesChanges() && hasRowKey();
  }

  /** Returns whether rows that are written replace those with the same keys, without a transaction. */
  boolean takesUpdates() {
    return description().takesUpdates();
  }

  /** Returns the table as the service described it when it was loaded, for requests about it. */
  String handle() {
    return description().table();
  }

  StreamQuery query(StructType columns, Map<String, String> options, String checkpoint) {
    return new StreamQuery(handle(), id(), columns, options, checkpoint);
  }

  NamedReference[] rowKey() {
    return description().rowKey().stream().map(key -> Expressions.column("`" + key.replace("`", "``") + "`"))
        .toArray(NamedReference[]::new);
  }

  /** Returns whether a change of this table is one of a row with a key, and not a row of its own. */
  boolean hasRowKey() {
    return !description().rowKey().isEmpty();
  }

  /** Plans a scan that ends where the other scans of this table in the same query end: `request` gets these ends. */
  synchronized PlannedRead planScan(Function<JsonNode, Request<PlannedRead>> request) {
    PlannedRead plan = service.call(request.apply(ends));
    ends = plan.ends();
    return plan;
  }

  /** Returns whether a scan of this table was planned, and so the end of all its scans. */
  synchronized boolean isScanned() {
    return ends != null;
  }
}
