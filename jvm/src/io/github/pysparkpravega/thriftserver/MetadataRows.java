package io.github.pysparkpravega.thriftserver;

import io.github.pysparkpravega.thriftserver.Catalogs.Found;
import io.github.pysparkpravega.thriftserver.Catalogs.Namespace;
import java.sql.DatabaseMetaData;
import java.util.*;
import java.util.concurrent.Callable;
import java.util.stream.IntStream;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.hive.service.cli.RowSet;
import org.apache.hive.service.cli.RowSetFactory;
import org.apache.hive.service.cli.TableSchema;
import org.apache.hive.service.cli.operation.MetadataOperation;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableSummary;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.catalog.constraints.PrimaryKey;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.hive.thriftserver.ReflectionUtils;

/** The rows of metadata calls about tables and views, with the columns that JDBC gives them. */
final class MetadataRows {
  /** If there are more tables than this, none is loaded for its comment. */
  private static final int COMMENTS = 100;

  /**
   * Adds rows to those that an operation of Spark's has found in its own catalog, unless the call is about another one,
   * and sorts them all. They get a set of their own: one that rows were taken out of takes no numbers any more.
   */
  static void complete(MetadataOperation operation, Catalogs catalogs, List<Object[]> ofOthers, int... order)
      throws HiveSQLException {
    List<Object[]> all = new ArrayList<>(ofOthers);
    if (catalogs.haveSessionCatalog()) {
      RowSet ofSpark = ReflectionUtils.getAncestorField(operation, 2, "rowSet");
      ofSpark.forEach(row -> all.add(ofSessionCatalog(row)));
    }
    RowSet rows = RowSetFactory.create(
        new TableSchema(operation.getResultSetSchema()), operation.getProtocolVersion(), false);
    addSorted(rows, all, order);
    ReflectionUtils.setAncestorField(operation, 2, "rowSet", rows);
  }

  /** Adds rows, sorted by some of their columns, nulls first. */
  static void addSorted(RowSet rows, List<Object[]> more, int... order) {
    Comparator<Object[]> comparator = (one, other) -> 0;
    for (int column : order) {
      comparator = comparator.thenComparing(
          row -> (String) row[column], Comparator.nullsFirst(Comparator.naturalOrder()));
    }
    more.stream().sorted(comparator).forEach(rows::addRow);
  }

  /** Returns a row about Spark's own catalog with that catalog's name, which Spark leaves out for some connections. */
  private static Object[] ofSessionCatalog(Object[] row) {
    Object[] named = row.clone(); // they all share one array
    named[0] = Catalogs.SESSION_CATALOG;
    return named;
  }

  static List<Object[]> ofColumns(Found found, SearchPattern column) {
    Column[] columns = found.relation().columns();
    return IntStream.range(0, columns.length).filter(index -> column.fits(columns[index].name()))
        .mapToObj(index -> ofColumn(found, columns[index], index + 1)).toList();
  }

  private static Object[] ofColumn(Found found, Column column, int position) {
    JdbcType type = JdbcType.of(column.dataType());
    int nullable = column.nullable() ? DatabaseMetaData.columnNullable : DatabaseMetaData.columnNoNulls;
    String standard = column.defaultValue() == null ? null : column.defaultValue().getSql();
    return new Object[] {
        found.namespace().catalog(), found.namespace().name(), found.name(), column.name(), type.number(),
        column.dataType().sql(), type.size(), null, type.digits(), type.radix(), nullable, column.comment(), standard,
        null, null, null, position, column.nullable() ? "YES" : "NO", null, null, null, null, "NO"};
  }

  static List<Object[]> ofPrimaryKeys(Found found) {
    List<Object[]> rows = new ArrayList<>();
    for (Constraint constraint : found.relation().constraints()) {
      if (constraint instanceof PrimaryKey key) {
        int position = 0;
        for (NamedReference column : key.columns()) {
          rows.add(new Object[] {
              found.namespace().catalog(), found.namespace().name(), found.name(),
              String.join(".", column.fieldNames()), ++position, key.name()});
        }
      }
    }
    return rows;
  }

  /** Returns the tables and views whose names and types fit. No types stand for all. */
  static List<Object[]> ofRelations(Catalogs catalogs, SearchPattern schema, SearchPattern table, List<String> types)
      throws HiveSQLException {
    List<String> wanted = types == null || types.isEmpty() ? List.of("TABLE", "VIEW") : types;
    List<Map.Entry<Namespace, TableSummary>> found = new ArrayList<>();
    for (Namespace namespace : catalogs.namespaces(schema)) {
      catalogs.relations(namespace, schema, table).stream().filter(relation -> wanted.contains(type(relation)))
          .forEach(relation -> found.add(Map.entry(namespace, relation)));
    }
    boolean withComments = found.size() <= COMMENTS;
    List<Callable<Object[]>> made = new ArrayList<>();
    found.forEach(entry -> made.add(() -> new Object[] {
        entry.getKey().catalog(), entry.getKey().name(), entry.getValue().identifier().name(), type(entry.getValue()),
        withComments ? comment(entry.getKey(), entry.getValue().identifier()) : null, null, null, null, null, null}));
    return Catalogs.results(made);
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
}
