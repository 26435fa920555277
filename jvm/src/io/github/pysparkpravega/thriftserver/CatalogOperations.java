package io.github.pysparkpravega.thriftserver;

import java.util.List;
import java.util.Map;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.hive.service.cli.OperationHandle;
import org.apache.hive.service.cli.SessionHandle;
import org.apache.hive.service.cli.operation.ExecuteStatementOperation;
import org.apache.hive.service.cli.operation.GetCatalogsOperation;
import org.apache.hive.service.cli.operation.GetColumnsOperation;
import org.apache.hive.service.cli.operation.GetCrossReferenceOperation;
import org.apache.hive.service.cli.operation.GetFunctionsOperation;
import org.apache.hive.service.cli.operation.GetPrimaryKeysOperation;
import org.apache.hive.service.cli.operation.GetSchemasOperation;
import org.apache.hive.service.cli.operation.GetTableTypesOperation;
import org.apache.hive.service.cli.operation.GetTypeInfoOperation;
import org.apache.hive.service.cli.operation.MetadataOperation;
import org.apache.hive.service.cli.operation.Operation;
import org.apache.hive.service.cli.operation.OperationManager;
import org.apache.hive.service.cli.session.HiveSession;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.hive.thriftserver.server.SparkSQLOperationManager;

/**
 * Spark's operations, with other ones for JDBC's metadata calls about catalogs.
 *
 * <p>Spark's conf for catalogs in metadata turns them off: then those too are Spark's own.
 */
final class CatalogOperations extends OperationManager {
  private static final String BROWSABLE = "spark.sql.thriftServer.catalogMetadata.enabled";

  private final SparkSQLOperationManager spark;

  CatalogOperations(SparkSQLOperationManager spark) {
    this.spark = spark;
  }

  Map<SessionHandle, SparkSession> sessions() {
    return spark.sessionToContexts();
  }

  private SparkSession session(HiveSession connection) {
    return spark.sessionToContexts().get(connection.getSessionHandle());
  }

  /** Spark has the setting from 4.3 on; before, only this server looks at it. */
  private boolean isBrowsable(HiveSession connection) {
    SparkSession session = session(connection);
    return session != null && Boolean.parseBoolean(session.conf().get(BROWSABLE, "false"));
  }

  private <T extends Operation> T register(T operation) {
    synchronized (spark) {
      spark.handleToOperation().put(operation.getHandle(), operation);
    }
    return operation;
  }

  @Override
  public GetCatalogsOperation newGetCatalogsOperation(HiveSession connection) {
    return isBrowsable(connection)
        ? register(new CatalogsOperation(session(connection), connection))
        : spark.newGetCatalogsOperation(connection);
  }

  @Override
  public GetSchemasOperation newGetSchemasOperation(HiveSession connection, String catalog, String schema) {
    return isBrowsable(connection)
        ? register(new SchemasOperation(session(connection), connection, catalog, schema))
        : spark.newGetSchemasOperation(connection, catalog, schema);
  }

  @Override
  public MetadataOperation newGetTablesOperation(
      HiveSession connection, String catalog, String schema, String table, List<String> types) {
    return isBrowsable(connection)
        ? register(new TablesOperation(session(connection), connection, catalog, schema, table, types))
        : spark.newGetTablesOperation(connection, catalog, schema, table, types);
  }

  @Override
  public GetColumnsOperation newGetColumnsOperation(
      HiveSession connection, String catalog, String schema, String table, String column) {
    return isBrowsable(connection)
        ? register(new ColumnsOperation(session(connection), connection, catalog, schema, table, column))
        : spark.newGetColumnsOperation(connection, catalog, schema, table, column);
  }

  @Override
  public GetPrimaryKeysOperation newGetPrimaryKeysOperation(
      HiveSession connection, String catalog, String schema, String table) {
    return isBrowsable(connection)
        ? register(new PrimaryKeysOperation(session(connection), connection, catalog, schema, table))
        : spark.newGetPrimaryKeysOperation(connection, catalog, schema, table);
  }

  // All else is Spark's own.

  @Override
  public ExecuteStatementOperation newExecuteStatementOperation(
      HiveSession connection, String statement, Map<String, String> confs, boolean async, long timeout) {
    return spark.newExecuteStatementOperation(connection, statement, confs, async, timeout);
  }

  @Override
  public GetTypeInfoOperation newGetTypeInfoOperation(HiveSession connection) {
    return spark.newGetTypeInfoOperation(connection);
  }

  @Override
  public GetTableTypesOperation newGetTableTypesOperation(HiveSession connection) {
    return spark.newGetTableTypesOperation(connection);
  }

  @Override
  public GetFunctionsOperation newGetFunctionsOperation(
      HiveSession connection, String catalog, String schema, String function) {
    return spark.newGetFunctionsOperation(connection, catalog, schema, function);
  }

  @Override
  public GetCrossReferenceOperation newGetCrossReferenceOperation(
      HiveSession connection, String catalog, String schema, String table, String otherCatalog, String otherSchema,
      String otherTable) {
    return spark.newGetCrossReferenceOperation(
        connection, catalog, schema, table, otherCatalog, otherSchema, otherTable);
  }

  @Override
  public Operation getOperation(OperationHandle handle) throws HiveSQLException {
    return spark.getOperation(handle);
  }

  @Override
  public void closeOperation(OperationHandle handle) throws HiveSQLException {
    spark.closeOperation(handle);
  }

  @Override
  public List<Operation> removeExpiredOperations(OperationHandle[] handles) {
    return spark.removeExpiredOperations(handles);
  }
}
