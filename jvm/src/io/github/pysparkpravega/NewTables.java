package io.github.pysparkpravega;

import io.github.pysparkpravega.Requests.CreateTable;
import java.util.*;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.catalog.constraints.PrimaryKey;

/** Describes new tables to the service. */
final class NewTables {
  static CreateTable request(Identifier ident, TableInfo info, Map<String, String> properties, boolean adopt) {
    Map<String, String> defaults = new HashMap<>();
    for (Column column : info.columns()) {
      String initial = column.defaultValue() == null ? null : TableChanges.initial(column.defaultValue());
      if (initial != null) {
        defaults.put(column.name(), initial);
      }
    }
    return new CreateTable(ident.namespace(), ident.name(), CatalogV2Util.v2ColumnsToStructType(info.columns()),
        Arrays.stream(info.partitions()).map(Object::toString).toList(),
        Arrays.stream(info.constraints()).map(NewTables::describe).toList(), properties, adopt, defaults);
  }

  private static Requests.Constraint describe(Constraint constraint) {
    List<String> columns = constraint instanceof PrimaryKey key
        ? Arrays.stream(key.columns()).map(column -> String.join(".", column.fieldNames())).toList()
        : List.of();
    return new Requests.Constraint(
        constraint.getClass().getSimpleName(), constraint.toDDL(), constraint.enforced(), columns);
  }

  /**
   * Leaves out defaults: those of a query's columns come from the columns that it selects, and not from the statement.
   */
  static TableInfo ofQuery(TableInfo info) {
    Column[] columns = Arrays.stream(info.columns()).map(column -> Column.create(
        column.name(), column.dataType(), column.nullable(), column.comment(), column.metadataInJSON()))
        .toArray(Column[]::new);
    return copy(info, columns).withPartitions(info.partitions()).build();
  }

  /** Leaves out partitions: the layout of another catalog's table says nothing about a stream. */
  static TableInfo withoutPartitions(TableInfo info) {
    return copy(info, info.columns()).build();
  }

  private static TableInfo.Builder copy(TableInfo info, Column[] columns) {
    return new TableInfo.Builder().withColumns(columns).withProperties(info.properties())
        .withConstraints(info.constraints());
  }
}
