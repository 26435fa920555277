package io.github.pysparkpravega;

import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;

/** New tables of toTable, between the calls by which Spark creates one and then loads it, in the same thread. */
final class TablesOfQueries {
  private final ThreadLocal<PravegaTable> next = new ThreadLocal<>();

  /**
   * Keeps a table for the load that follows. It is made at once in a session where no rule says when its query starts.
   */
  PravegaTable keep(PravegaTable table) {
    if (!SessionExtensions.in(SparkSession.active())) {
      table.make();
    }
    next.set(table);
    return table;
  }

  /** Returns the table that was kept, or null for any load but that of the same toTable. */
  PravegaTable take(Identifier ident) {
    PravegaTable table = next.get();
    if (table == null || !table.isOf(ident) || !Callers.isToTable()) {
      return null;
    }
    next.remove();
    return table;
  }

  void forget() {
    next.remove();
  }
}
