package io.github.pysparkpravega;

import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.StaticSQLConf;

/** The table of Pravega that a statement names, whether it exists or not. */
record NamedTable(PravegaCatalog catalog, Identifier ident) {
  /**
   * Finds the catalog of a name: the one that it begins with, or the current one. Empty if it is not one of Pravega.
   */
  static Optional<NamedTable> of(SparkSession session, List<String> name) {
    CatalogManager catalogs = session.sessionState().catalogManager();
    int last = name.size() - 1;
    boolean whole = last > 0 && isPravega(session, name.get(0));
    if (last > 0 && !whole && isOfOthers(session, name.get(0))) {
      return Optional.empty();
    }
    if (!((whole ? catalogs.catalog(name.get(0)) : catalogs.currentCatalog()) instanceof PravegaCatalog catalog)) {
      return Optional.empty();
    }
    String[] namespace =
        last == 0 ? catalogs.currentNamespace() : name.subList(whole ? 1 : 0, last).toArray(String[]::new);
    return Optional.of(new NamedTable(catalog, Identifier.of(namespace, name.get(last))));
  }

  /** Returns whether a name that begins so belongs to Spark's own catalog, its temporary views or another catalog. */
  private static boolean isOfOthers(SparkSession session, String catalog) {
    SQLConf conf = session.sessionState().conf();
    return catalog.equalsIgnoreCase(CatalogManager.SESSION_CATALOG_NAME())
        || catalog.equalsIgnoreCase(conf.getConf(StaticSQLConf.GLOBAL_TEMP_DATABASE()))
        || conf.contains(DriverConf.CATALOG + catalog);
  }

  /** Looks in the session's conf, so that no catalog is loaded just to be asked. */
  static boolean isPravega(SparkSession session, String catalog) {
    String found = session.sessionState().conf().getConfString(DriverConf.CATALOG + catalog, "");
    return found.equals(PravegaCatalog.class.getName());
  }
}
