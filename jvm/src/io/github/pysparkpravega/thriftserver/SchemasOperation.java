package io.github.pysparkpravega.thriftserver;

import java.util.ArrayList;
import java.util.List;
import org.apache.hive.service.cli.OperationState;
import org.apache.hive.service.cli.session.HiveSession;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.hive.thriftserver.SparkGetSchemasOperation;
import scala.jdk.javaapi.CollectionConverters;

/** getSchemas: the namespaces of all catalogs. */
final class SchemasOperation extends SparkGetSchemasOperation {
  private final Catalogs catalogs;
  private final SearchPattern schema;

  SchemasOperation(SparkSession session, HiveSession connection, String catalog, String schema) {
    super(session, connection, catalog, schema);
    this.catalogs = new Catalogs(session, catalog);
    this.schema = SearchPattern.of(schema);
  }

  @Override
  public void runInternal() {
    Running.run(this, () -> {
      setState(OperationState.RUNNING);
      List<Object[]> rows = new ArrayList<>();
      if (catalogs.haveSessionCatalog()) {
        List<String> databases = new ArrayList<>(CollectionConverters.asJava(catalog().listDatabases()));
        databases.add(catalog().globalTempDatabase());
        databases.stream().filter(schema::fits).forEach(
            name -> rows.add(new Object[] {name, Catalogs.SESSION_CATALOG}));
      }
      catalogs.namespaces(schema).forEach(namespace -> rows.add(new Object[] {namespace.name(), namespace.catalog()}));
      Answer.sort(rows, 1, 0).forEach(rowSet::addRow);
      setState(OperationState.FINISHED);
    });
  }
}
