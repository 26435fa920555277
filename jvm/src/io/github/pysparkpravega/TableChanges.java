package io.github.pysparkpravega;

import java.util.Base64;
import java.util.Objects;
import org.apache.spark.sql.connector.catalog.ColumnDefaultValue;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.types.StructType;

/** Describes changes of ALTER TABLE to the service. */
final class TableChanges {
  static Requests.TableChange describe(TableChange change) {
    String property = null;
    String value = null;
    String[] column = {};
    StructType field = null;
    TableChange.ColumnPosition position = null;
    String initial = null;
    if (change instanceof TableChange.SetProperty set) {
      property = set.property();
      value = set.value();
    } else if (change instanceof TableChange.RemoveProperty removed) {
      property = removed.property();
    } else if (change instanceof TableChange.ColumnChange of) {
      column = of.fieldNames();
    }
    if (change instanceof TableChange.AddColumn add) {
      field = add.comment() == null
          ? new StructType().add(last(column), add.dataType(), add.isNullable())
          : new StructType().add(last(column), add.dataType(), add.isNullable(), add.comment());
      position = add.position();
      if (add.defaultValue() != null) {
        property = "default";
        value = add.defaultValue().getSql();
        initial = initial(add.defaultValue());
      }
    } else if (change instanceof TableChange.UpdateColumnType update) {
      field = new StructType().add(last(column), update.newDataType());
    } else if (change instanceof TableChange.UpdateColumnNullability update) {
      value = String.valueOf(update.nullable());
    } else if (change instanceof TableChange.UpdateColumnComment update) {
      value = update.newComment();
    } else if (change instanceof TableChange.UpdateColumnDefaultValue update) {
      value = update.newCurrentDefault() == null ? "" : update.newCurrentDefault().getSql();
    } else if (change instanceof TableChange.UpdateColumnPosition update) {
      position = update.position();
    } else if (change instanceof TableChange.RenameColumn rename) {
      value = rename.newName();
    }
    String after = position == null ? null : position instanceof TableChange.After other ? other.column() : "";
    return new Requests.TableChange(change.getClass().getSimpleName(), property, value, column, field, after, initial);
  }

  private static String last(String[] name) {
    return name[name.length - 1];
  }

  /** Returns the present value of a default as text; null if it is NULL or not a constant. */
  static String initial(ColumnDefaultValue value) {
    Object now = value.getValue() == null ? null : value.getValue().value();
    return now instanceof byte[] bytes ? Base64.getEncoder().encodeToString(bytes) : Objects.toString(now, null);
  }
}
