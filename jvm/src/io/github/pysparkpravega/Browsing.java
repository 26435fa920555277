package io.github.pysparkpravega;

import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;

/**
 * The loads of a statement that lists the tables of a namespace and then loads them, which Spark does one by one: they
 * go ahead of it, several at once. What was loaded ahead is given to no other statement.
 */
final class Browsing {
  private static final int AT_ONCE = 8;
  private static final int LONGEST_RUN = 6; // 62 tables ahead
  private static final String CATALOG = ".classic.Catalog";
  private static final ThreadLocal<Browsing> CURRENT = new ThreadLocal<>();

  private final Tables catalog;
  private final Identifier[] tables;
  private final boolean extended;
  private final Map<Integer, Future<Object>> ahead = new TreeMap<>();
  private final ThreadPoolExecutor threads =
      new ThreadPoolExecutor(AT_ONCE, AT_ONCE, 1, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), Browsing::daemon);
  private int next;
  private int run;

  private Browsing(Tables catalog, Identifier[] tables, boolean extended) {
    this.catalog = catalog;
    this.tables = tables;
    this.extended = extended;
    threads.allowCoreThreadTimeOut(true); // nobody says when a statement is over
  }

  private static Thread daemon(Runnable work) {
    Thread thread = new Thread(work, "pravega-tables-ahead");
    thread.setDaemon(true);
    return thread;
  }

  /** Takes note of what is listed, if it is for a statement that loads what it has listed; returns it. */
  static Identifier[] listed(Tables catalog, Identifier[] tables) {
    boolean extended = isExtended();
    CURRENT.remove();
    if (extended || isCatalogList()) {
      CURRENT.set(new Browsing(catalog, tables, extended));
    }
    return tables;
  }

  /**
   * Loads a table or a view, or gives the one that was loaded ahead in the same statement. One that is there and cannot be loaded
   * hides no other from SHOW TABLE EXTENDED, and exists to catalog.tableExists().
   */
  static Object loaded(Tables catalog, Identifier ident, Function<Identifier, Object> load) {
    Browsing current = CURRENT.get();
    if (current != null && (current.catalog != catalog || !(current.extended ? isExtended() : isCatalogList()))) {
      CURRENT.remove(); // that statement is over
      current = null;
    }
    try {
      return current == null ? load.apply(ident) : current.take(ident, load);
    } catch (Exception e) {
      boolean missing = e instanceof NoSuchTableException;
      if (current != null && current.extended && (missing || isAboutTable(e))) {
        return new UnreadableTable(ident, e.getMessage());
      }
      if (!missing && isAboutTable(e) && isOnStack(CATALOG, "tableExists")) {
        if (catalog.tableExists(ident)) {
          return new UnreadableTable(ident, e.getMessage());
        }
        throw PravegaException.unchecked(new NoSuchTableException(ident));
      }
      throw e;
    }
  }

  /** Tells errors about a table, or what the user may not do with it, from those of servers and connections. */
  private static boolean isAboutTable(Exception error) {
    return error instanceof PravegaException known && known.getSqlState().matches("(42|0A).*");
  }

  /** Tells whether catalog.functionExists() asks, to which a function of no table is only none. */
  static boolean isAskedForFunction() {
    return isOnStack(CATALOG, "functionExists");
  }

  private Object take(Identifier ident, Function<Identifier, Object> load) {
    int place = next;
    while (place < tables.length && !tables[place].equals(ident)) {
      place++;
    }
    if (place == tables.length) {
      return load.apply(ident);
    }
    // With a pattern not all are loaded: the more in a row, the more ahead.
    run = place == next ? Math.min(run + 1, LONGEST_RUN) : 1;
    next = place + 1;
    int end = Math.min(tables.length, next + (1 << run) - 2);
    for (int each = next; each < end; each++) {
      Identifier later = tables[each];
      ahead.computeIfAbsent(each, any -> threads.submit(() -> load.apply(later)));
    }
    Future<Object> begun = ahead.remove(place);
    ahead.keySet().removeIf(each -> each < next);
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

  private static boolean isExtended() {
    return isOnStack(".ShowTablesExtendedExec", "run");
  }

  private static boolean isCatalogList() {
    return isOnStack(CATALOG, "makeTablesDataset");
  }

  private static boolean isOnStack(String name, String method) {
    return StackWalker.getInstance().walk(frames -> frames.anyMatch(
        frame -> frame.getClassName().endsWith(name) && frame.getMethodName().equals(method)));
  }
}
