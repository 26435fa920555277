package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import io.github.pysparkpravega.Replies.*;
import io.github.pysparkpravega.Requests.*;
import java.util.*;
import java.util.function.Function;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The tables of a catalog: streams, key-value tables, and the metadata tables about them. */
interface Tables extends StagingTableCatalog, LineCatalog {
  TablesOfQueries ofQueries();

  /**
   * Whether CREATE TABLE alone uses this catalog. Spark asks it whether the table exists, and never calls createTable
   * when the answer is yes. A stream without a schema is a table to every statement but this one, which may adopt it.
   */
  boolean isOfCreateTable();

  /** The loads ahead of SHOW TABLE EXTENDED, if that statement alone uses this catalog; else null. */
  Browsing ofShowTableExtended();

  @Override
  default Identifier[] listTables(String[] namespace) {
    String[] names = service().call(new ListTables(namespace), SparkErrors.ofNamespace(namespace));
    return Browsing.noteTables(
        this, Arrays.stream(names).map(table -> Identifier.of(namespace, table)).toArray(Identifier[]::new));
  }

  @Override
  default Table loadTable(Identifier ident) {
    PravegaTable made = ofQueries().take(ident);
    return made != null ? made : (Table) load(ident, CaseInsensitiveStringMap.empty(), false, null, false);
  }

  /** Spark before 4.3 calls this for a table that is written. */
  @Override
  default Table loadTable(Identifier ident, Set<TableWritePrivilege> privileges) {
    return ofChanging((Table) load(ident, CaseInsensitiveStringMap.empty(), true, null, false), privileges);
  }

  /** Spark before 4.3 calls this for VERSION AS OF. */
  @Override
  default Table loadTable(Identifier ident, String version) {
    return (Table) load(ident, CaseInsensitiveStringMap.empty(), false, new TimeTravel("version", version), false);
  }

  /** Spark before 4.3 calls this for TIMESTAMP AS OF. */
  @Override
  default Table loadTable(Identifier ident, long micros) {
    TimeTravel at = new TimeTravel("timestamp", Long.toString(micros));
    return (Table) load(ident, CaseInsensitiveStringMap.empty(), false, at, false);
  }

  /** Returns a table that is written, prepared for a statement that changes or removes rows if it is one. */
  static Table ofChanging(Table table, Set<TableWritePrivilege> privileges) {
    boolean changing =
        privileges.contains(TableWritePrivilege.UPDATE) || privileges.contains(TableWritePrivilege.DELETE);
    return changing && table instanceof PravegaTable loaded ? loaded.ofChanging() : table;
  }

  /**
   * Loads a table, or a view if that may be `orView`.
   *
   * @param at null for the table as it is now.
   */
  default Object load(
      Identifier ident, CaseInsensitiveStringMap options, boolean writing, TimeTravel at, boolean orView) {
    boolean caseSensitive = SQLConf.get().caseSensitiveAnalysis();
    Map<String, String> texts = options.asCaseSensitiveMap();
    Function<Identifier, Object> loader = found -> relation(found, service().call(
        new LoadTable(found.namespace(), found.name(), texts, writing, at, orView, caseSensitive),
        SparkErrors.ofTable(found)));
    return writing || at != null
        ? Browsing.load(this, ident, loader)
        : FreshLoads.get(
            new FreshLoads.Load(this, ident, texts, caseSensitive), () -> Browsing.load(this, ident, loader));
  }

  private Object relation(Identifier ident, JsonNode found) {
    return found.has("text") ? SparkLine.view(Json.as(ViewDefinition.class, found))
        : found.has("table") ? new TruncatablePravegaTable(service(), ident, Json.as(TableDescription.class, found))
        : new MetadataTable(service(), ident, Json.as(MetadataDescription.class, found));
  }

  @Override
  default boolean tableExists(Identifier ident) {
    ofQueries().forget();
    return service().call(new TableExists(ident.namespace(), ident.name(), isOfCreateTable()));
  }

  @Override
  default Table createTable(Identifier ident, TableInfo info) {
    Map<String, String> properties = new HashMap<>(info.properties());
    if (!Callers.isToTable()) {
      return create(ident, info, properties, true);
    }
    // Spark names its default format as the provider unless the query names another.
    properties.remove(TableCatalog.PROP_PROVIDER, SQLConf.get().defaultDataSourceName());
    return ofQueries().keep(new PravegaTable(
        service(), ident, name() + "." + ident, info.columns(), () -> makeTable(ident, info, properties, true)));
  }

  /** Makes a table now. */
  default PravegaTable create(Identifier ident, TableInfo info, Map<String, String> properties, boolean adopt) {
    return new PravegaTable(service(), ident, makeTable(ident, info, properties, adopt));
  }

  private TableDescription makeTable(Identifier ident, TableInfo info, Map<String, String> properties, boolean adopt) {
    return service().call(NewTables.request(ident, info, properties, adopt), SparkErrors.ofNewTable(ident));
  }

  @Override
  default Table alterTable(Identifier ident, TableChange... changes) {
    AlterTable request = new AlterTable(
        ident.namespace(), ident.name(), Arrays.stream(changes).map(TableChanges::describe).toList());
    return new PravegaTable(service(), ident, service().call(request, SparkErrors.ofTable(ident)));
  }

  @Override
  default boolean dropTable(Identifier ident) {
    return service().call(new DropTable(ident.namespace(), ident.name()));
  }

  /** The events of a dropped table are gone in any case. */
  @Override
  default boolean purgeTable(Identifier ident) {
    return dropTable(ident);
  }

  @Override
  default void renameTable(Identifier from, Identifier to) {
    service().refuse(from, "RENAME");
  }

  // Staging: CREATE TABLE AS SELECT is undone as a whole; REPLACE of a table is refused before anything is dropped.

  @Override
  default StagedTable stageCreate(Identifier ident, TableInfo info) {
    return create(ident, NewTables.ofQuery(info), info.properties(), false);
  }

  @Override
  default StagedTable stageReplace(Identifier ident, TableInfo info) {
    service().refuse(ident, "REPLACE TABLE");
    return null;
  }

  @Override
  default StagedTable stageCreateOrReplace(Identifier ident, TableInfo info) {
    if (tableExists(ident)) {
      service().refuse(ident, "CREATE OR REPLACE TABLE");
    }
    PravegaTable made = create(ident, NewTables.ofQuery(info), info.properties(), false);
    made.noteMadeByStatement();
    return made;
  }
}
