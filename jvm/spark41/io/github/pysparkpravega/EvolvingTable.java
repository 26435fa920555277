package io.github.pysparkpravega;

import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;

/** A table whose columns MERGE WITH SCHEMA EVOLUTION may change: Spark 4.1 does not ask which changes it takes. */
interface EvolvingTable extends Table {
  boolean supportsColumnChange(TableChange.ColumnChange change);
}
