package io.github.pysparkpravega;

import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;

/** New tables of toTable, between the calls by which Spark creates one and then loads it, in the same thread. */
final class TablesOfQueries {
  private final ThreadLocal<PravegaTable> next = new ThreadLocal<>();

  static boolean isAsking() {
    return PravegaCatalog.calledBy(".DataStreamWriter", "toTable", Integer.MAX_VALUE);
  }

  /** Keeps a table for the load that follows. It is made at once where nothing tells when its query may start. */
  PravegaTable keep(PravegaTable table) {
    if (!SessionExtensions.in(SparkSession.active())) {
      table.make();
    }
    next.set(table);
    return table;
  }

  /** The table that was kept, null for any load but that of the same toTable. */
  PravegaTable take(Identifier ident) {
    PravegaTable table = next.get();
    if (table == null || !table.isOf(ident) || !isAsking()) {
      return null;
    }
    next.remove();
    return table;
  }

  void forget() {
    next.remove();
  }
}
