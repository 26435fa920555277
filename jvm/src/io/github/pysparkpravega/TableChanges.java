package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Base64;
import java.util.Objects;
import org.apache.spark.sql.connector.catalog.ColumnDefaultValue;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.types.StructType;

/** Describes changes of ALTER TABLE to the service. */
final class TableChanges {
  private TableChanges() {}

  static void describe(TableChange change, ObjectNode one) {
    one.put("kind", change.getClass().getSimpleName()).putNull("property").putNull("value");
    if (change instanceof TableChange.SetProperty property) {
      one.put("property", property.property()).put("value", property.value());
    } else if (change instanceof TableChange.RemoveProperty property) {
      one.put("property", property.property());
    } else if (change instanceof TableChange.ColumnChange column) {
      describeColumn(column, one);
    }
  }

  /** Return what a default is now, as text; null if it is NULL or no constant. */
  static String initial(ColumnDefaultValue value) {
    Object now = value.getValue() == null ? null : value.getValue().value();
    return now instanceof byte[] bytes ? Base64.getEncoder().encodeToString(bytes) : Objects.toString(now, null);
  }

  private static void describeColumn(TableChange.ColumnChange change, ObjectNode one) {
    ArrayNode name = one.putArray("column");
    for (String part : change.fieldNames()) {
      name.add(part);
    }
    String last = change.fieldNames()[change.fieldNames().length - 1];
    TableChange.ColumnPosition position = null;
    if (change instanceof TableChange.AddColumn add) {
      StructType added = new StructType().add(last, add.dataType(), add.isNullable());
      one.put("field", (add.comment() == null ? added
          : new StructType().add(last, add.dataType(), add.isNullable(), add.comment())).json());
      position = add.position();
      if (add.defaultValue() != null) {
        one.put("property", "default").put("value", add.defaultValue().getSql());
        one.put("initial", initial(add.defaultValue()));
      }
    } else if (change instanceof TableChange.UpdateColumnType update) {
      one.put("field", new StructType().add(last, update.newDataType()).json());
    } else if (change instanceof TableChange.UpdateColumnNullability update) {
      one.put("value", String.valueOf(update.nullable()));
    } else if (change instanceof TableChange.UpdateColumnComment update) {
      one.put("value", update.newComment());
    } else if (change instanceof TableChange.UpdateColumnDefaultValue update) {
      one.put("value", update.newCurrentDefault() == null ? "" : update.newCurrentDefault().getSql());
    } else if (change instanceof TableChange.UpdateColumnPosition update) {
      position = update.position();
    } else if (change instanceof TableChange.RenameColumn rename) {
      one.put("value", rename.newName());
    }
    if (position != null) {
      one.put("after", position instanceof TableChange.After after ? after.column() : "");
    }
  }
}
