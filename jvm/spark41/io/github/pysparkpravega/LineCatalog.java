package io.github.pysparkpravega;

import org.apache.spark.sql.connector.catalog.TableCatalog;

/** What a catalog of Spark 4.1 has beside tables: nothing. There are no changes, and no views. */
interface LineCatalog extends TableCatalog {
  PravegaService service();
}
