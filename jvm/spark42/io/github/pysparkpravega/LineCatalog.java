package io.github.pysparkpravega;

import io.github.pysparkpravega.Requests.LoadChangelog;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What catalogs have from Spark 4.2 on; loads with options and contexts from 4.3 on. */
interface LineCatalog extends Views {
  private Tables self() {
    return (Tables) this;
  }

  /** Names the options of a query that change a table's columns. Spark loads the table again for them. */
  @Override
  default Set<String> tableStateOptionKeys() {
    return PravegaTable.COLUMN_OPTIONS;
  }

  /** Loads a table or a view for a query without time travel and without options that change columns. */
  @Override
  default Relation loadRelation(Identifier ident) {
    return (Relation) self().load(ident, CaseInsensitiveStringMap.empty(), false, null, true);
  }

  @Override
  default Table loadTable(Identifier ident, TableContext context, CaseInsensitiveStringMap options) {
    Requests.TimeTravel at = context.timeTravel().map(LineCatalog::describe).orElse(null);
    Table table = (Table) self().load(ident, options, !context.writePrivileges().isEmpty(), at, false);
    return Tables.ofChanging(table, context.writePrivileges());
  }

  private static Requests.TimeTravel describe(TimeTravel asked) {
    return asked instanceof TimeTravel.AsOfVersion version
        ? new Requests.TimeTravel("version", version.version())
        : new Requests.TimeTravel("timestamp", Long.toString(((TimeTravel.AsOfTimestamp) asked).micros()));
  }

  @Override
  default Changelog loadChangelog(Identifier ident, ChangelogContext context, CaseInsensitiveStringMap options) {
    LoadChangelog request = new LoadChangelog(
        ident.namespace(), ident.name(), options.asCaseSensitiveMap(), PravegaChangelog.describe(context));
    return new PravegaChangelog(
        new PravegaTable(service(), ident, service().call(request, SparkErrors.ofTable(ident))));
  }

  /** Makes an equal table if the source is one of Pravega; of others it takes the columns. */
  @Override
  default Table createTableLike(Identifier ident, TableInfo info, Table source) {
    Map<String, String> properties = new HashMap<>(source instanceof PravegaTable ? source.properties() : Map.of());
    properties.keySet().removeAll(Set.of(TableCatalog.PROP_LOCATION, TableCatalog.PROP_IS_MANAGED_LOCATION));
    properties.putAll(info.properties());
    return self().create(ident, NewTables.withoutPartitions(info), properties, false);
  }
}
