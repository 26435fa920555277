package io.github.pysparkpravega;

import io.github.pysparkpravega.Requests.*;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.catalog.Identifier;

/**
 * Gives a query the tables that its analysis has just loaded. Spark loads each of them again before it runs the query,
 * because a DataFrame may have been analyzed long ago. A table is given once, to the thread that loaded it, and only if
 * no statement of this driver has changed anything since. Its scans are planned later, and so miss no event.
 */
final class FreshLoads {
  private static final long FRESH = TimeUnit.SECONDS.toNanos(2);
  private static final Set<Class<?>> CHANGING = Set.of(AlterTable.class, CallProcedure.class, CreateTable.class,
      DropNamespace.class, DropTable.class, DropView.class, PutView.class, RenameView.class, SettleTable.class,
      TruncateTable.class, UndoCreation.class);
  private static final AtomicLong CHANGES = new AtomicLong();
  private static final ThreadLocal<Map<Load, Loaded>> OF_THREAD = ThreadLocal.withInitial(HashMap::new);

  /** Says what was loaded; two catalogs are the same only if they are one object, which belongs to one session. */
  record Load(Tables catalog, Identifier ident, Map<String, String> options, boolean caseSensitive) {}

  private record Loaded(PravegaTable table, long nanos, long changes) {
    boolean isFresh() {
      return System.nanoTime() - nanos < FRESH && changes == CHANGES.get() && !table.isScanned();
    }
  }

  /** Takes note that a request has been answered. */
  static void noteAnswer(Request<?> request) {
    if (CHANGING.contains(request.getClass())) {
      CHANGES.incrementAndGet();
    }
  }

  /** Returns the table of a load, from the analysis of the query that Spark is about to run if that was just now. */
  static Object get(Load load, Supplier<Object> loader) {
    Map<Load, Loaded> loads = OF_THREAD.get();
    loads.values().removeIf(loaded -> !loaded.isFresh());
    boolean refresh = Callers.isRefresh();
    if (refresh && loads.containsKey(load)) {
      return loads.remove(load).table;
    }
    long changes = CHANGES.get();
    Object relation = loader.get();
    if (!refresh && relation instanceof PravegaTable table) { // a refreshed one is scanned at once
      loads.put(load, new Loaded(table, System.nanoTime(), changes));
    }
    return relation;
  }
}
