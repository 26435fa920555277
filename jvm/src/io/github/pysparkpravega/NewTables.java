package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.catalog.constraints.PrimaryKey;
import org.apache.spark.sql.connector.expressions.NamedReference;

/** Describes tables that are to be made to the service. */
final class NewTables {
  private NewTables() {}

  static void describe(TableInfo info, ObjectNode arguments) {
    arguments.put("schema", CatalogV2Util.v2ColumnsToStructType(info.columns()).json());
    ArrayNode defaults = arguments.putArray("defaults");
    for (Column column : info.columns()) {
      String initial = column.defaultValue() == null ? null : TableChanges.initial(column.defaultValue());
      if (initial != null) {
        defaults.addArray().add(column.name()).add(initial);
      }
    }
    ArrayNode partitions = arguments.putArray("partitions");
    for (Object transform : info.partitions()) {
      partitions.add(transform.toString());
    }
    ArrayNode constraints = arguments.putArray("constraints");
    for (Constraint constraint : info.constraints()) {
      ObjectNode one = constraints.addObject().put("kind", constraint.getClass().getSimpleName());
      one.put("text", constraint.toDDL()).put("enforced", constraint.enforced());
      ArrayNode columns = one.putArray("columns");
      if (constraint instanceof PrimaryKey key) {
        for (NamedReference column : key.columns()) {
          columns.add(String.join(".", column.fieldNames()));
        }
      }
    }
  }

  /** The columns of a query have the defaults of the columns that it selects, which are none of the new table's. */
  static TableInfo ofQuery(TableInfo info) {
    TableInfo.Builder plain = new TableInfo.Builder();
    plain.withColumns(Arrays.stream(info.columns()).map(column -> Column.create(
        column.name(), column.dataType(), column.nullable(), column.comment(), column.metadataInJSON()))
        .toArray(Column[]::new));
    plain.withPartitions(info.partitions());
    plain.withProperties(info.properties());
    plain.withConstraints(info.constraints());
    return plain.build();
  }

  /** How a table of another catalog is laid out says nothing about a stream. */
  static TableInfo withoutPartitions(TableInfo info) {
    TableInfo.Builder plain = new TableInfo.Builder();
    plain.withColumns(info.columns());
    plain.withProperties(info.properties());
    plain.withConstraints(info.constraints());
    return plain.build();
  }
}
