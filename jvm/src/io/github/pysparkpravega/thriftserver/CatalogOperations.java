package io.github.pysparkpravega.thriftserver;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hive.service.cli.OperationHandle;
import org.apache.hive.service.cli.SessionHandle;
import org.apache.hive.service.cli.operation.GetCatalogsOperation;
import org.apache.hive.service.cli.operation.GetColumnsOperation;
import org.apache.hive.service.cli.operation.GetPrimaryKeysOperation;
import org.apache.hive.service.cli.operation.GetSchemasOperation;
import org.apache.hive.service.cli.operation.MetadataOperation;
import org.apache.hive.service.cli.operation.Operation;
import org.apache.hive.service.cli.session.HiveSession;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.hive.thriftserver.ReflectionUtils;
import org.apache.spark.sql.hive.thriftserver.server.SparkSQLOperationManager;

/**
 * Spark's operations, with other ones for JDBC's metadata calls about catalogs. It takes over the sessions and the
 * operations of the manager that the server has begun with.
 *
 * <p>Spark's conf for catalogs in metadata turns them off: then those too are Spark's own.
 */
final class CatalogOperations extends SparkSQLOperationManager {
  private static final String BROWSABLE = "spark.sql.thriftServer.catalogMetadata.enabled";
  private final SparkSQLOperationManager former;
  private final Map<OperationHandle, Operation> operations = new ConcurrentHashMap<>();

  /** Gives both managers one map of operations: those of clients may begin and end with the former one meanwhile. */
  CatalogOperations(SparkSQLOperationManager former) {
    this.former = former;
    ReflectionUtils.setAncestorField(this, 2, "handleToOperation", operations);
    synchronized (former) { // as in all its methods that use its map
      operations.putAll(former.handleToOperation());
      ReflectionUtils.setAncestorField(former, 1, "handleToOperation", operations);
      ReflectionUtils.setAncestorField(former, 0, "handleToOperation", operations);
    }
  }

  /** Returns the operations, which Spark's manager looks for in the class above the object's own. */
  @Override
  public Map<OperationHandle, Operation> handleToOperation() {
    return operations;
  }

  @Override
  public ConcurrentHashMap<SessionHandle, SparkSession> sessionToContexts() {
    return former.sessionToContexts();
  }

  private SparkSession session(HiveSession connection) {
    return sessionToContexts().get(connection.getSessionHandle());
  }

  /** Spark has the setting from 4.3 on; before, only this server looks at it. */
  private boolean isBrowsable(HiveSession connection) {
    SparkSession session = session(connection);
    return session != null && Boolean.parseBoolean(session.conf().get(BROWSABLE, "false"));
  }

  private <T extends Operation> T register(T operation) {
    operations.put(operation.getHandle(), operation);
    return operation;
  }

  @Override
  public GetCatalogsOperation newGetCatalogsOperation(HiveSession connection) {
    return isBrowsable(connection)
        ? register(new CatalogsOperation(session(connection), connection))
        : super.newGetCatalogsOperation(connection);
  }

  @Override
  public GetSchemasOperation newGetSchemasOperation(HiveSession connection, String catalog, String schema) {
    return isBrowsable(connection)
        ? register(new SchemasOperation(session(connection), connection, catalog, schema))
        : super.newGetSchemasOperation(connection, catalog, schema);
  }

  @Override
  public MetadataOperation newGetTablesOperation(
      HiveSession connection, String catalog, String schema, String table, List<String> types) {
    return isBrowsable(connection)
        ? register(new TablesOperation(session(connection), connection, catalog, schema, table, types))
        : super.newGetTablesOperation(connection, catalog, schema, table, types);
  }

  @Override
  public GetColumnsOperation newGetColumnsOperation(
      HiveSession connection, String catalog, String schema, String table, String column) {
    return isBrowsable(connection)
        ? register(new ColumnsOperation(session(connection), connection, catalog, schema, table, column))
        : super.newGetColumnsOperation(connection, catalog, schema, table, column);
  }

  @Override
  public GetPrimaryKeysOperation newGetPrimaryKeysOperation(
      HiveSession connection, String catalog, String schema, String table) {
    return isBrowsable(connection)
        ? register(new PrimaryKeysOperation(session(connection), connection, catalog, schema, table))
        : super.newGetPrimaryKeysOperation(connection, catalog, schema, table);
  }
}
