package io.github.pysparkpravega.thriftserver;

import java.util.Arrays;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;

/** What a metadata call shows of a table or a view, as Spark's catalogs have both from 4.2 on. */
record BrowsedRelation(Column[] columns, Map<String, String> properties, Constraint[] constraints) {
  /** Lists what a namespace has, without loading it. */
  static TableSummary[] list(TableCatalog tables, String[] namespace)
      throws NoSuchNamespaceException, NoSuchTableException {
    return tables instanceof RelationCatalog relations
        ? relations.listRelationSummaries(namespace)
        : Arrays.stream(tables.listTables(namespace))
            .map(ident -> TableSummary.of(ident, TableSummary.MANAGED_TABLE_TYPE)).toArray(TableSummary[]::new);
  }

  static BrowsedRelation load(TableCatalog tables, Identifier ident) throws NoSuchTableException {
    Relation loaded = tables instanceof RelationCatalog relations
        ? relations.loadRelation(ident) : tables.loadTable(ident);
    return new BrowsedRelation(loaded.columns(), loaded.properties(),
        loaded instanceof Table table ? table.constraints() : new Constraint[0]);
  }
}
