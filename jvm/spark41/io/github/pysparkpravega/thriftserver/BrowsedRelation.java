package io.github.pysparkpravega.thriftserver;

import java.util.Arrays;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableSummary;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;

/** What a metadata call shows of a table: catalogs of Spark 4.1 have no views beside them. */
record BrowsedRelation(Column[] columns, Map<String, String> properties, Constraint[] constraints) {
  /** Lists what a namespace has, without loading it. */
  static TableSummary[] list(TableCatalog tables, String[] namespace)
      throws NoSuchNamespaceException, NoSuchTableException {
    return Arrays.stream(tables.listTables(namespace))
        .map(ident -> TableSummary.of(ident, TableSummary.MANAGED_TABLE_TYPE)).toArray(TableSummary[]::new);
  }

  static BrowsedRelation load(TableCatalog tables, Identifier ident) throws NoSuchTableException {
    Table table = tables.loadTable(ident);
    return new BrowsedRelation(table.columns(), table.properties(), table.constraints());
  }
}
