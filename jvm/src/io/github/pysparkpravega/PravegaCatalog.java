package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's catalog interfaces, each call handed to the catalog service and its errors turned into Spark's own. */
public final class PravegaCatalog
    implements StagingTableCatalog, SupportsNamespaces, FunctionCatalog, Procedures, LineCatalog {
  private String name;
  private PravegaService service;
  private volatile String[] selected;

  private final TablesOfQueries ofQueries = new TablesOfQueries();

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    this.service = PravegaService.of(options);
    service.conf().addArray().add("catalog-name").add(name);
    TableCommands.in(SparkSession.active());
  }

  @Override
  public String name() {
    return name;
  }

  /** Constraints and defaults of CREATE TABLE come to createTable, which refuses those that a stream cannot have. */
  @Override
  public Set<TableCatalogCapability> capabilities() {
    return Set.of(TableCatalogCapability.SUPPORT_TABLE_CONSTRAINT, TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE);
  }

  @Override
  public PravegaService service() {
    return service;
  }

  private JsonNode call(String operation, ObjectNode arguments) {
    return service.call(operation, arguments);
  }

  // Namespaces

  @Override
  public String[] defaultNamespace() {
    if (selected == null) {
      List<String> parts = new ArrayList<>();
      call("default_namespace", arguments()).forEach(part -> parts.add(part.asText()));
      selected = parts.toArray(new String[0]);
    }
    return selected.clone();
  }

  @Override
  public String[][] listNamespaces() {
    List<String[]> scopes = new ArrayList<>();
    call("list_namespaces", arguments()).forEach(scope -> scopes.add(new String[] {scope.asText()}));
    return scopes.toArray(new String[0][]);
  }

  @Override
  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    requireNamespace(namespace);
    return namespace.length == 0 ? listNamespaces() : new String[0][];
  }

  @Override
  public boolean namespaceExists(String[] namespace) {
    return call("namespace_exists", arguments(namespace)).asBoolean();
  }

  private void requireNamespace(String[] namespace) throws NoSuchNamespaceException {
    if (namespace.length > 0 && !namespaceExists(namespace)) {
      throw new NoSuchNamespaceException(namespace);
    }
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    try {
      return Service.texts(call("load_namespace", arguments(namespace)));
    } catch (Exception e) {
      throw namespaceError(e, namespace);
    }
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> metadata)
      throws NamespaceAlreadyExistsException {
    ObjectNode arguments = arguments(namespace);
    arguments.set("properties", Service.pairs(metadata));
    try {
      call("create_namespace", arguments);
    } catch (Exception e) {
      throw PravegaException.unchecked(
          PravegaException.is(e, "PRAVEGA_SCOPE_EXISTS") ? new NamespaceAlreadyExistsException(namespace) : e);
    }
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) throws NoSuchNamespaceException {
    ObjectNode arguments = arguments(namespace);
    NamespaceChanges.describe(changes, arguments.putArray("changes"));
    try {
      call("alter_namespace", arguments);
    } catch (Exception e) {
      throw namespaceError(e, namespace);
    }
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade)
      throws NoSuchNamespaceException, NonEmptyNamespaceException {
    try {
      return call("drop_namespace", arguments(namespace).put("cascade", cascade)).asBoolean();
    } catch (Exception e) {
      if (!cascade && PravegaException.is(e, "PRAVEGA_SCOPE_NOT_EMPTY")) {
        throw new NonEmptyNamespaceException(namespace);
      }
      throw namespaceError(e, namespace);
    }
  }

  // Tables

  @Override
  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    try {
      List<Identifier> tables = new ArrayList<>();
      call("list_tables", arguments(namespace)).forEach(
          table -> tables.add(Identifier.of(namespace, table.asText())));
      return Browsing.listed(this, tables.toArray(new Identifier[0]));
    } catch (Exception e) {
      throw namespaceError(e, namespace);
    }
  }

  @Override
  public Table loadTable(Identifier ident) throws NoSuchTableException {
    PravegaTable made = ofQueries.take(ident);
    return made != null ? made : (Table) load(ident, CaseInsensitiveStringMap.empty(), false, Optional.empty(), false);
  }

  /** Spark before 4.3 asks so for a table that is written. */
  @Override
  public Table loadTable(Identifier ident, Set<TableWritePrivilege> privileges) throws NoSuchTableException {
    return (Table) load(ident, CaseInsensitiveStringMap.empty(), true, Optional.empty(), false);
  }

  /** Spark before 4.3 asks so for VERSION AS OF. */
  @Override
  public Table loadTable(Identifier ident, String version) throws NoSuchTableException {
    return asOf(ident, AskedTime.version(version));
  }

  /** Spark before 4.3 asks so for TIMESTAMP AS OF. */
  @Override
  public Table loadTable(Identifier ident, long micros) throws NoSuchTableException {
    return asOf(ident, AskedTime.timestamp(micros));
  }

  private Table asOf(Identifier ident, AskedTime asked) throws NoSuchTableException {
    return (Table) load(ident, CaseInsensitiveStringMap.empty(), false, Optional.of(asked), false);
  }

  /** Loads a table, or a view if that may be `orView`. */
  Object load(
      Identifier ident, CaseInsensitiveStringMap options, boolean writing, Optional<AskedTime> travel, boolean orView)
      throws NoSuchTableException {
    return Browsing.loaded(this, ident, each -> found(each, options, writing, travel, orView));
  }

  private Object found(
      Identifier ident, CaseInsensitiveStringMap options, boolean writing, Optional<AskedTime> travel, boolean orView) {
    ObjectNode arguments = arguments(ident).put("writing", writing).put("or_view", orView)
        .put("case_sensitive", SQLConf.get().caseSensitiveAnalysis());
    arguments.set("options", Service.pairs(options.asCaseSensitiveMap()));
    travel.ifPresent(asked -> asked.describe(arguments.putObject("at")));
    try {
      JsonNode found = call("load_table", arguments);
      return found.has("text") ? SparkLine.view(found)
          : found.has("table") ? new PravegaTable(service, ident, found) : new MetadataTable(service, ident, found);
    } catch (Exception e) {
      throw tableError(e, ident);
    }
  }

  @Override
  public boolean tableExists(Identifier ident) {
    // Spark asks before CREATE TABLE and never calls createTable when the answer is yes. A stream without a
    // schema is a table to every statement but this one, which may adopt it; nothing but the caller tells them apart.
    boolean creating = calledBy(".CreateTableExec", "run", 12);
    ofQueries.forget();
    return call("table_exists", arguments(ident).put("creating", creating)).asBoolean();
  }

  static boolean calledBy(String name, String method, int depth) {
    return StackWalker.getInstance().walk(frames -> frames.limit(depth).anyMatch(
        frame -> frame.getClassName().endsWith(name) && frame.getMethodName().equals(method)));
  }

  @Override
  public Table createTable(Identifier ident, TableInfo info)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    Map<String, String> properties = new HashMap<>(info.properties());
    if (!TablesOfQueries.isAsking()) {
      return create(ident, info, properties, true);
    }
    // Spark takes its default format for the one of a stream's table, unless another is named.
    properties.remove(TableCatalog.PROP_PROVIDER, SQLConf.get().defaultDataSourceName());
    return ofQueries.keep(new PravegaTable(
        service, ident, name + "." + ident, info.columns(), () -> created(ident, info, properties, true)));
  }

  PravegaTable create(Identifier ident, TableInfo info, Map<String, String> properties, boolean adopt) {
    return new PravegaTable(service, ident, created(ident, info, properties, adopt));
  }

  private JsonNode created(Identifier ident, TableInfo info, Map<String, String> properties, boolean adopt) {
    ObjectNode arguments = arguments(ident).put("adopt", adopt);
    arguments.set("properties", Service.pairs(properties));
    NewTables.describe(info, arguments);
    try {
      return call("create_table", arguments);
    } catch (Exception e) {
      if (PravegaException.is(e, "PRAVEGA_STREAM_EXISTS") || PravegaException.is(e, "PRAVEGA_VIEW_EXISTS")) {
        throw PravegaException.unchecked(new TableAlreadyExistsException(ident));
      }
      throw namespaceError(e, ident.namespace());
    }
  }

  @Override
  public Table alterTable(Identifier ident, TableChange... changes) throws NoSuchTableException {
    ObjectNode arguments = arguments(ident);
    ArrayNode described = arguments.putArray("changes");
    for (TableChange change : changes) {
      TableChanges.describe(change, described.addObject());
    }
    try {
      return new PravegaTable(service, ident, call("alter_table", arguments));
    } catch (Exception e) {
      throw tableError(e, ident);
    }
  }

  @Override
  public boolean dropTable(Identifier ident) {
    return call("drop_table", arguments(ident)).asBoolean();
  }

  /** The events of a dropped table are gone in any case. */
  @Override
  public boolean purgeTable(Identifier ident) {
    return dropTable(ident);
  }

  @Override
  public void renameTable(Identifier from, Identifier to) {
    refuse(from, "RENAME");
  }

  private void refuse(Identifier ident, String statement) {
    service.refuse(ident, statement);
  }

  // Staging: CREATE TABLE AS SELECT is undone as a whole; REPLACE is refused before anything is dropped.

  @Override
  public StagedTable stageCreate(Identifier ident, TableInfo info)
      throws TableAlreadyExistsException, NoSuchNamespaceException {
    return create(ident, NewTables.ofQuery(info), info.properties(), false);
  }

  @Override
  public StagedTable stageReplace(Identifier ident, TableInfo info) {
    refuse(ident, "REPLACE TABLE");
    return null;
  }

  @Override
  public StagedTable stageCreateOrReplace(Identifier ident, TableInfo info) {
    refuse(ident, "CREATE OR REPLACE TABLE");
    return null;
  }

  // Functions: those of the namespace `system`, and one of each table.

  @Override
  public Identifier[] listFunctions(String[] namespace) throws NoSuchNamespaceException {
    if (PravegaFunctions.isSystem(namespace)) {
      return PravegaFunctions.ofSystem();
    }
    requireNamespace(namespace);
    return new Identifier[0];
  }

  @Override
  public UnboundFunction loadFunction(Identifier ident) throws NoSuchFunctionException {
    String[] path = ident.namespace();
    UnboundFunction found = PravegaFunctions.isSystem(path) ? PravegaFunctions.ofSystem(ident.name()) : null;
    if (path.length == 2 && ident.name().equalsIgnoreCase(PravegaFunctions.SEGMENT_OF)) {
      Identifier table = Identifier.of(new String[] {path[0]}, path[1]);
      try {
        return PravegaFunctions.segmentOf(call("load_segments", arguments(table)));
      } catch (Exception e) {
        boolean missing = PravegaException.is(e, "PRAVEGA_STREAM_NOT_FOUND");
        throw PravegaException.unchecked(!missing ? e
            : Browsing.isAskedForFunction() ? new NoSuchFunctionException(ident) : new NoSuchTableException(table));
      }
    }
    if (found == null) {
      throw new NoSuchFunctionException(ident);
    }
    return found;
  }

  // Arguments and errors

  private static ObjectNode arguments() {
    return Service.JSON.createObjectNode();
  }

  static ObjectNode arguments(String[] namespace) {
    ObjectNode arguments = arguments();
    ArrayNode parts = arguments.putArray("namespace");
    for (String part : namespace) {
      parts.add(part);
    }
    return arguments;
  }

  static ObjectNode arguments(Identifier ident) {
    return arguments(ident.namespace()).put("name", ident.name());
  }

  private static RuntimeException namespaceError(Exception e, String[] namespace) {
    return PravegaException.unchecked(
        PravegaException.is(e, "PRAVEGA_SCOPE_NOT_FOUND") ? new NoSuchNamespaceException(namespace) : e);
  }

  static RuntimeException tableError(Exception e, Identifier ident) {
    boolean missing =
        PravegaException.is(e, "PRAVEGA_STREAM_NOT_FOUND") || PravegaException.is(e, "PRAVEGA_SCOPE_NOT_FOUND");
    return PravegaException.unchecked(missing ? new NoSuchTableException(ident) : e);
  }
}
