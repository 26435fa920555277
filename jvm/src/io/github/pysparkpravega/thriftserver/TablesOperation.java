package io.github.pysparkpravega.thriftserver;

import io.github.pysparkpravega.thriftserver.Catalogs.Namespace;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.hive.service.cli.FetchOrientation;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.hive.service.cli.session.HiveSession;
import org.apache.hive.service.rpc.thrift.TRowSet;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableSummary;
import org.apache.spark.sql.hive.thriftserver.SparkGetTablesOperation;

/** getTables: tables and views of all catalogs, those of the session catalog and temporary ones as Spark lists them. */
final class TablesOperation extends SparkGetTablesOperation {
  /** If there are more tables than this, none is loaded for its comment. */
  private static final int COMMENTS = 100;

  private final Catalogs catalogs;
  private final SearchPattern schema;
  private final SearchPattern table;
  private final List<String> types;
  private Answer answer;

  TablesOperation(
      SparkSession session, HiveSession connection, String catalog, String schema, String table, List<String> types) {
    super(session, connection, catalog, schema, table, types);
    this.catalogs = new Catalogs(session, catalog);
    this.schema = SearchPattern.of(schema);
    this.table = SearchPattern.of(table);
    this.types = types == null || types.isEmpty() ? List.of("TABLE", "VIEW") : types;
  }

  @Override
  public void runInternal() {
    super.runInternal();
    Running.run(this, () -> {
      List<Object[]> rows = new ArrayList<>();
      if (catalogs.haveSessionCatalog()) {
        rowSet.forEach(row -> rows.add(Answer.ofSessionCatalog(row)));
      }
      addRelations(rows);
      answer = new Answer(this, rows, 3, 0, 1, 2);
    });
  }

  private void addRelations(List<Object[]> rows) throws HiveSQLException {
    List<Map.Entry<Namespace, TableSummary>> found = new ArrayList<>();
    for (Namespace namespace : catalogs.namespaces(schema)) {
      catalogs.relations(namespace, schema, table).stream().filter(relation -> types.contains(type(relation)))
          .forEach(relation -> found.add(Map.entry(namespace, relation)));
    }
    boolean withComments = found.size() <= COMMENTS;
    List<Callable<Object[]>> made = new ArrayList<>();
    found.forEach(entry -> made.add(() -> new Object[] {
        entry.getKey().catalog(), entry.getKey().name(), entry.getValue().identifier().name(), type(entry.getValue()),
        withComments ? comment(entry.getKey(), entry.getValue().identifier()) : null, null, null, null, null, null}));
    rows.addAll(Parallel.results(made));
  }

  private static String type(TableSummary relation) {
    return relation.tableType().equals(TableSummary.VIEW_TABLE_TYPE) ? "VIEW" : "TABLE";
  }

  /** Returns the comment of a table, or the error if it cannot be loaded: it is listed all the same. */
  private static String comment(Namespace namespace, Identifier ident) {
    try {
      return BrowsedRelation.load(namespace.tables(), ident).properties().get(TableCatalog.PROP_COMMENT);
    } catch (Exception e) {
      return e.getMessage();
    }
  }

  @Override
  public TRowSet getNextRowSet(FetchOrientation orientation, long limit) throws HiveSQLException {
    validateDefaultFetchOrientation(orientation);
    return answer.next(orientation, limit);
  }
}
