package io.github.pysparkpravega;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.*;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;

/**
 * Loads tables ahead of a statement that lists those of a namespace and then loads them one by one: several at once.
 * What was loaded ahead is given to no other statement.
 */
final class Browsing {
  private static final int AT_ONCE = 8;
  private static final int LONGEST_RUN = 6; // 62 tables ahead
  private static final ThreadLocal<Browsing> CURRENT = new ThreadLocal<>();

  private final Tables catalog;
  private final Map<Integer, Future<Object>> ahead = new TreeMap<>();
  private final ThreadPoolExecutor threads =
      new ThreadPoolExecutor(AT_ONCE, AT_ONCE, 1, TimeUnit.SECONDS, new LinkedBlockingQueue<>(),
          work -> Service.daemon("tables-ahead", work));
  private Identifier[] tables = {};
  private int next;
  private int run;

  Browsing(Tables catalog) {
    this.catalog = catalog;
    threads.allowCoreThreadTimeOut(true); // nobody says when a statement is over
  }

  /** Takes note of what is listed, if it is for a statement that loads what it has listed; returns it. */
  static Identifier[] noteTables(Tables catalog, Identifier[] tables) {
    Browsing current = catalog.ofShowTableExtended();
    if (current == null) {
      CURRENT.remove();
      if (Callers.isListTables()) {
        current = new Browsing(catalog);
        CURRENT.set(current);
      }
    }
    if (current != null) {
      current.tables = tables;
    }
    return tables;
  }

  /**
   * Loads a table or a view, or gives the one that was loaded ahead in the same statement. One that exists and cannot
   * be loaded hides no other from SHOW TABLE EXTENDED, and exists to catalog.tableExists().
   */
  static Object load(Tables catalog, Identifier ident, Function<Identifier, Object> load) {
    Browsing extended = catalog.ofShowTableExtended();
    Browsing current = extended == null ? ofListTables(catalog) : extended;
    try {
      return current == null ? load.apply(ident) : current.take(ident, load);
    } catch (Exception e) {
      boolean missing = e instanceof NoSuchTableException;
      if (extended != null && (missing || isAboutTable(e))) {
        return new UnreadableTable(ident, e.getMessage());
      }
      if (!missing && isAboutTable(e) && Callers.isTableExists()) {
        if (catalog.tableExists(ident)) {
          return new UnreadableTable(ident, e.getMessage());
        }
        throw PravegaException.unchecked(new NoSuchTableException(ident));
      }
      throw e;
    }
  }

  private static Browsing ofListTables(Tables catalog) {
    Browsing current = CURRENT.get();
    if (current != null && (current.catalog != catalog || !Callers.isListTables())) {
      CURRENT.remove(); // that statement is over
      return null;
    }
    return current;
  }

  /** Returns whether an error is about a table or the user's rights to it, and not about servers or connections. */
  private static boolean isAboutTable(Exception error) {
    return error instanceof PravegaException known && known.getSqlState().matches("(42|0A).*");
  }

  private Object take(Identifier ident, Function<Identifier, Object> load) {
    int place = next;
    while (place < tables.length && !tables[place].equals(ident)) {
      place++;
    }
    if (place == tables.length) {
      return load.apply(ident);
    }
    // A pattern skips some tables: the more are taken in a row, the more are loaded ahead.
    run = place == next ? Math.min(run + 1, LONGEST_RUN) : 1;
    next = place + 1;
    int end = Math.min(tables.length, next + (1 << run) - 2);
    for (int index = next; index < end; index++) {
      Identifier later = tables[index];
      ahead.computeIfAbsent(index, any -> threads.submit(() -> load.apply(later)));
    }
    Future<Object> begun = ahead.remove(place);
    ahead.keySet().removeIf(index -> index < next);
    return begun == null ? load.apply(ident) : result(begun);
  }

  private Object result(Future<Object> begun) {
    try {
      return begun.get();
    } catch (ExecutionException e) {
      throw PravegaException.unchecked(e.getCause());
    } catch (InterruptedException e) {
      threads.shutdownNow();
      CURRENT.remove();
      throw PravegaException.unchecked(e);
    }
  }
}
