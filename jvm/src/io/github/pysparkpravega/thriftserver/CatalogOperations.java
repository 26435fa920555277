package io.github.pysparkpravega.thriftserver;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.hive.service.cli.OperationHandle;
import org.apache.hive.service.cli.OperationState;
import org.apache.hive.service.cli.RowSet;
import org.apache.hive.service.cli.SessionHandle;
import org.apache.hive.service.cli.operation.GetCatalogsOperation;
import org.apache.hive.service.cli.operation.GetColumnsOperation;
import org.apache.hive.service.cli.operation.GetPrimaryKeysOperation;
import org.apache.hive.service.cli.operation.GetSchemasOperation;
import org.apache.hive.service.cli.operation.MetadataOperation;
import org.apache.hive.service.cli.operation.Operation;
import org.apache.hive.service.cli.session.HiveSession;
import org.apache.hive.service.rpc.thrift.TTableSchema;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.hive.thriftserver.ReflectionUtils;
import org.apache.spark.sql.hive.thriftserver.SparkGetCatalogsOperation;
import org.apache.spark.sql.hive.thriftserver.SparkGetColumnsOperation;
import org.apache.spark.sql.hive.thriftserver.SparkGetSchemasOperation;
import org.apache.spark.sql.hive.thriftserver.SparkGetTablesOperation;
import org.apache.spark.sql.hive.thriftserver.server.SparkSQLOperationManager;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

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

  /** Work that may raise Hive's exception, which the methods of Spark's operations do not declare. */
  private interface Work {
    void run() throws HiveSQLException;
  }

  /** Runs the work of an operation as Spark does: in its session, with the session's jars. */
  private static void within(SparkSession session, Work work) {
    Thread.currentThread().setContextClassLoader(session.sharedState().jarClassLoader());
    session.withActive(() -> {
      try {
        work.run();
        return BoxedUnit.UNIT;
      } catch (HiveSQLException e) {
        throw CatalogOperations.<RuntimeException>unchecked(e);
      }
    });
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E unchecked(Throwable error) throws E {
    throw (E) error;
  }

  /** getCatalogs: all catalogs that the session's conf has. */
  @Override
  public GetCatalogsOperation newGetCatalogsOperation(HiveSession connection) {
    if (!isBrowsable(connection)) {
      return super.newGetCatalogsOperation(connection);
    }
    return register(new SparkGetCatalogsOperation(session(connection), connection) {
      @Override
      public void runInternal() {
        within(session(), () -> {
          setState(OperationState.RUNNING);
          Catalogs.names(session()).forEach(name -> rowSet.addRow(new Object[] {name}));
          setState(OperationState.FINISHED);
        });
      }
    });
  }

  /** getSchemas: the namespaces of all catalogs. */
  @Override
  public GetSchemasOperation newGetSchemasOperation(HiveSession connection, String catalog, String schema) {
    if (!isBrowsable(connection)) {
      return super.newGetSchemasOperation(connection, catalog, schema);
    }
    return register(new SparkGetSchemasOperation(session(connection), connection, catalog, schema) {
      @Override
      public void runInternal() {
        within(session(), () -> {
          setState(OperationState.RUNNING);
          Catalogs catalogs = new Catalogs(session(), catalog);
          SearchPattern pattern = SearchPattern.of(schema);
          List<Object[]> rows = new ArrayList<>();
          if (catalogs.haveSessionCatalog()) {
            List<String> databases = new ArrayList<>(CollectionConverters.asJava(catalog().listDatabases()));
            databases.add(catalog().globalTempDatabase());
            databases.stream().filter(pattern::fits).forEach(
                name -> rows.add(new Object[] {name, Catalogs.SESSION_CATALOG}));
          }
          catalogs.namespaces(pattern).forEach(
              namespace -> rows.add(new Object[] {namespace.name(), namespace.catalog()}));
          MetadataRows.addSorted(rowSet, rows, 1, 0);
          setState(OperationState.FINISHED);
        });
      }
    });
  }

  /** getTables: tables and views of all catalogs, those of the session catalog and temporary ones as Spark has them. */
  @Override
  public MetadataOperation newGetTablesOperation(
      HiveSession connection, String catalog, String schema, String table, List<String> types) {
    if (!isBrowsable(connection)) {
      return super.newGetTablesOperation(connection, catalog, schema, table, types);
    }
    return register(new SparkGetTablesOperation(session(connection), connection, catalog, schema, table, types) {
      @Override
      public void runInternal() {
        super.runInternal();
        within(session(), () -> {
          Catalogs catalogs = new Catalogs(session(), catalog);
          List<Object[]> rows =
              MetadataRows.ofRelations(catalogs, SearchPattern.of(schema), SearchPattern.of(table), types);
          MetadataRows.complete(this, catalogs, rows, 3, 0, 1, 2);
        });
      }
    });
  }

  /** getColumns: the columns of tables and views of all catalogs, those of the session catalog as Spark lists them. */
  @Override
  public GetColumnsOperation newGetColumnsOperation(
      HiveSession connection, String catalog, String schema, String table, String column) {
    if (!isBrowsable(connection)) {
      return super.newGetColumnsOperation(connection, catalog, schema, table, column);
    }
    return register(new SparkGetColumnsOperation(session(connection), connection, catalog, schema, table, column) {
      @Override
      public void runInternal() {
        super.runInternal();
        within(session(), () -> {
          Catalogs catalogs = new Catalogs(session(), catalog);
          SearchPattern pattern = SearchPattern.of(column);
          List<Object[]> rows = catalogs.ofTables(SearchPattern.of(schema), SearchPattern.of(table),
              found -> MetadataRows.ofColumns(found, pattern));
          MetadataRows.complete(this, catalogs, rows, 0, 1, 2); // and then in the order of the table
        });
      }
    });
  }

  /** getPrimaryKeys: those that tables declare. Tables of the session catalog have none. */
  @Override
  public GetPrimaryKeysOperation newGetPrimaryKeysOperation(
      HiveSession connection, String catalog, String schema, String table) {
    if (!isBrowsable(connection)) {
      return super.newGetPrimaryKeysOperation(connection, catalog, schema, table);
    }
    SparkSession session = session(connection);
    return register(new GetPrimaryKeysOperation(connection, catalog, schema, table) {
      @Override
      public void runInternal() throws HiveSQLException {
        setState(OperationState.RUNNING);
        RowSet rowSet = ReflectionUtils.getSuperField(this, "rowSet");
        within(session, () -> {
          SearchPattern namespace = schema == null ? SearchPattern.of(null) : SearchPattern.exactly(schema);
          List<Object[]> rows = new Catalogs(session, catalog).ofTables(
              namespace, SearchPattern.exactly(String.valueOf(table)), MetadataRows::ofPrimaryKeys);
          MetadataRows.addSorted(rowSet, rows, 0, 1, 2);
        });
        setState(OperationState.FINISHED);
      }

      /** Returns Hive's columns with the name that JDBC gives to the fifth: Hive's is KEQ_SEQ. */
      @Override
      public TTableSchema getResultSetSchema() throws HiveSQLException {
        TTableSchema schema = super.getResultSetSchema().deepCopy();
        schema.getColumns().get(4).setColumnName("KEY_SEQ");
        return schema;
      }
    });
  }
}
