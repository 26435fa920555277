package io.github.pysparkpravega.thriftserver;

import io.github.pysparkpravega.thriftserver.Catalogs.Found;
import java.util.ArrayList;
import java.util.List;
import org.apache.hive.service.cli.FetchOrientation;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.hive.service.cli.OperationState;
import org.apache.hive.service.cli.operation.GetPrimaryKeysOperation;
import org.apache.hive.service.cli.session.HiveSession;
import org.apache.hive.service.rpc.thrift.TRowSet;
import org.apache.hive.service.rpc.thrift.TTableSchema;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.catalog.constraints.PrimaryKey;
import org.apache.spark.sql.connector.expressions.NamedReference;

/** getPrimaryKeys: those that tables declare. Tables of the session catalog have none. */
final class PrimaryKeysOperation extends GetPrimaryKeysOperation {
  private final SparkSession session;
  private final Catalogs catalogs;
  private final SearchPattern schema;
  private final SearchPattern table;
  private Answer answer;

  PrimaryKeysOperation(SparkSession session, HiveSession connection, String catalog, String schema, String table) {
    super(connection, catalog, schema, table);
    this.session = session;
    this.catalogs = new Catalogs(session, catalog);
    this.schema = schema == null ? SearchPattern.of(null) : SearchPattern.exactly(schema);
    this.table = SearchPattern.exactly(String.valueOf(table));
  }

  @Override
  public void runInternal() throws HiveSQLException {
    setState(OperationState.RUNNING);
    List<Object[]> rows = new ArrayList<>();
    Running.run(session, () -> rows.addAll(catalogs.ofTables(schema, table, PrimaryKeysOperation::rows)));
    setState(OperationState.FINISHED);
    answer = new Answer(this, rows, 0, 1, 2);
  }

  private static List<Object[]> rows(Found found) {
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

  /** Returns Hive's columns with the name that JDBC gives to the fifth: Hive's is KEQ_SEQ. */
  @Override
  public TTableSchema getResultSetSchema() throws HiveSQLException {
    TTableSchema schema = super.getResultSetSchema().deepCopy();
    schema.getColumns().get(4).setColumnName("KEY_SEQ");
    return schema;
  }

  @Override
  public TRowSet getNextRowSet(FetchOrientation orientation, long limit) throws HiveSQLException {
    validateDefaultFetchOrientation(orientation);
    return answer.next(orientation, limit);
  }
}
