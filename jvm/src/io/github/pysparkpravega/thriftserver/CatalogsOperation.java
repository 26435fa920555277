package io.github.pysparkpravega.thriftserver;

import org.apache.hive.service.cli.OperationState;
import org.apache.hive.service.cli.session.HiveSession;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.hive.thriftserver.SparkGetCatalogsOperation;

/** getCatalogs: all catalogs that the session's conf has. */
final class CatalogsOperation extends SparkGetCatalogsOperation {
  CatalogsOperation(SparkSession session, HiveSession connection) {
    super(session, connection);
  }

  @Override
  public void runInternal() {
    Running.run(this, () -> {
      setState(OperationState.RUNNING);
      Catalogs.names(session()).forEach(name -> rowSet.addRow(new Object[] {name}));
      setState(OperationState.FINISHED);
    });
  }
}
