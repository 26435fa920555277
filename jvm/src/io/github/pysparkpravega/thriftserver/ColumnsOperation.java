package io.github.pysparkpravega.thriftserver;

import io.github.pysparkpravega.thriftserver.Catalogs.Found;
import java.sql.DatabaseMetaData;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.hive.service.cli.FetchOrientation;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.hive.service.cli.session.HiveSession;
import org.apache.hive.service.rpc.thrift.TRowSet;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.hive.thriftserver.SparkGetColumnsOperation;

/** getColumns: the columns of tables and views of all catalogs, those of the session catalog as Spark lists them. */
final class ColumnsOperation extends SparkGetColumnsOperation {
  private final Catalogs catalogs;
  private final SearchPattern schema;
  private final SearchPattern table;
  private final SearchPattern column;
  private Answer answer;

  ColumnsOperation(
      SparkSession session, HiveSession connection, String catalog, String schema, String table, String column) {
    super(session, connection, catalog, schema, table, column);
    this.catalogs = new Catalogs(session, catalog);
    this.schema = SearchPattern.of(schema);
    this.table = SearchPattern.of(table);
    this.column = SearchPattern.of(column);
  }

  @Override
  public void runInternal() {
    super.runInternal();
    Running.run(this, () -> {
      List<Object[]> rows = new ArrayList<>();
      if (catalogs.haveSessionCatalog()) {
        rowSet.forEach(row -> rows.add(Answer.ofSessionCatalog(row)));
      }
      rows.addAll(catalogs.ofTables(schema, table, this::rows));
      answer = new Answer(this, rows, 0, 1, 2); // and then in the order of the table
    });
  }

  private List<Object[]> rows(Found found) {
    Column[] columns = found.relation().columns();
    return IntStream.range(0, columns.length).filter(index -> column.fits(columns[index].name()))
        .mapToObj(index -> row(found, columns[index], index + 1)).toList();
  }

  private static Object[] row(Found found, Column column, int position) {
    JdbcType type = JdbcType.of(column.dataType());
    int nullable = column.nullable() ? DatabaseMetaData.columnNullable : DatabaseMetaData.columnNoNulls;
    String standard = column.defaultValue() == null ? null : column.defaultValue().getSql();
    return new Object[] {
        found.namespace().catalog(), found.namespace().name(), found.name(), column.name(), type.number(),
        column.dataType().sql(), type.size(), null, type.digits(), type.radix(), nullable, column.comment(), standard,
        null, null, null, position, column.nullable() ? "YES" : "NO", null, null, null, null, "NO"};
  }

  @Override
  public TRowSet getNextRowSet(FetchOrientation orientation, long limit) throws HiveSQLException {
    validateDefaultFetchOrientation(orientation);
    return answer.next(orientation, limit);
  }
}
