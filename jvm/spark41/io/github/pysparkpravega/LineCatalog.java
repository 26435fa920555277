package io.github.pysparkpravega;

import org.apache.spark.sql.connector.catalog.TableCatalog;

/** What Spark 4.1 asks of catalogs beside tables: nothing. It has no changes, and no views beside tables. */
interface LineCatalog extends TableCatalog {
  PravegaService service();
}
