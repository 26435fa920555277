package io.github.pysparkpravega.thriftserver;

import java.util.*;
import java.util.concurrent.*;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.*;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Finds what a metadata call asks for in a session's catalogs, all but Spark's own one.
 *
 * <p>If the call names something that cannot be loaded, it fails. In a list it is left out, and the log says why.
 */
final class Catalogs {
  static final String SESSION_CATALOG = CatalogManager.SESSION_CATALOG_NAME();
  private static final Logger LOG = LoggerFactory.getLogger(Catalogs.class);
  /** Loads of tables at once, because a tool may ask for the columns of all. */
  private static final int AT_ONCE = 8;
  private static final Pattern CONF = Pattern.compile("spark\\.sql\\.catalog\\.([^.]+)");

  private final SparkSession session;
  private final String wanted;

  /** A catalog of null or "" stands for all. */
  Catalogs(SparkSession session, String wanted) {
    this.session = session;
    this.wanted = wanted == null || wanted.isEmpty() ? null : wanted;
  }

  /** A namespace of one of the catalogs. */
  record Namespace(String catalog, TableCatalog tables, String[] parts) {
    String name() {
      return String.join(".", parts);
    }
  }

  /** A table or a view, loaded. */
  record Found(Namespace namespace, String name, BrowsedRelation relation) {}

  /** Returns the names of all catalogs in the session's conf. Spark lists only those that were used. */
  static List<String> names(SparkSession session) {
    TreeSet<String> names = new TreeSet<>(List.of(SESSION_CATALOG));
    CollectionConverters.asJava(session.sessionState().conf().getAllConfs()).keySet().forEach(key -> {
      Matcher conf = CONF.matcher(key);
      if (conf.matches()) {
        names.add(conf.group(1));
      }
    });
    return List.copyOf(names);
  }

  boolean haveSessionCatalog() {
    return wanted == null || wanted.equals(SESSION_CATALOG);
  }

  List<Namespace> namespaces(SearchPattern schema) throws HiveSQLException {
    List<Namespace> found = new ArrayList<>();
    for (String name : names(session)) {
      if (!name.equals(SESSION_CATALOG) && (wanted == null || wanted.equals(name))) {
        found.addAll(attempt(wanted != null, "catalog " + name, () -> namespaces(name, schema)));
      }
    }
    return found;
  }

  private List<Namespace> namespaces(String name, SearchPattern schema) throws NoSuchNamespaceException {
    CatalogPlugin plugin = session.sessionState().catalogManager().catalog(name);
    if (!(plugin instanceof TableCatalog tables && plugin instanceof SupportsNamespaces namespaces)) {
      return List.of();
    }
    return Arrays.stream(namespaces.listNamespaces()).map(parts -> new Namespace(name, tables, parts))
        .filter(namespace -> schema.fits(namespace.name())).toList();
  }

  /** Returns the tables and views whose names fit, without loading them. */
  List<TableSummary> relations(Namespace namespace, SearchPattern schema, SearchPattern name) throws HiveSQLException {
    boolean named = wanted != null && schema.literal() != null;
    String what = "namespace " + namespace.catalog() + "." + namespace.name();
    return attempt(named, what, () -> Arrays.stream(BrowsedRelation.list(namespace.tables(), namespace.parts()))
        .filter(relation -> name.fits(relation.identifier().name())).toList());
  }

  /**
   * Returns the rows that `made` makes of each table and view whose name fits, in their order. If only one name can
   * fit, the others are not even listed. Nothing else is kept of them, because there may be thousands.
   */
  List<Object[]> ofTables(SearchPattern schema, SearchPattern table, Function<Found, List<Object[]>> made)
      throws HiveSQLException {
    boolean named = wanted != null && schema.literal() != null && table.literal() != null;
    List<Callable<List<Object[]>>> loads = new ArrayList<>();
    for (Namespace namespace : namespaces(schema)) {
      List<Identifier> idents = table.literal() == null
          ? relations(namespace, schema, table).stream().map(TableSummary::identifier).toList()
          : List.of(Identifier.of(namespace.parts(), table.literal()));
      for (Identifier ident : idents) {
        String what = "table " + namespace.catalog() + "." + ident;
        loads.add(() -> attempt(named, what,
            () -> made.apply(new Found(namespace, ident.name(), BrowsedRelation.load(namespace.tables(), ident)))));
      }
    }
    return results(loads).stream().flatMap(List::stream).toList();
  }

  /** Returns the results in the order of the work. The threads are new, so that they inherit the active session. */
  static <T> List<T> results(List<Callable<T>> work) throws HiveSQLException {
    ExecutorService threads = Executors.newFixedThreadPool(AT_ONCE);
    try {
      List<T> results = new ArrayList<>();
      for (Future<T> result : threads.invokeAll(work)) {
        results.add(result.get());
      }
      return results;
    } catch (ExecutionException e) {
      throw e.getCause() instanceof HiveSQLException known ? known : new HiveSQLException(e.getCause());
    } catch (InterruptedException e) {
      throw new HiveSQLException("interrupted", e);
    } finally {
      threads.shutdownNow();
    }
  }

  private static <T> List<T> attempt(boolean named, String what, Callable<List<T>> work) throws HiveSQLException {
    try {
      return work.call();
    } catch (NoSuchNamespaceException | NoSuchTableException e) {
      return List.of();
    } catch (Exception e) {
      if (named) {
        throw new HiveSQLException(e.getMessage(), e);
      }
      LOG.warn("A metadata call leaves out {}: {}", what, e.toString());
      return List.of();
    }
  }
}
