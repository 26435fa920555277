package io.github.pysparkpravega;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;

/** A table that exists and cannot be loaded, as lists show it: without columns, and with the reason as its comment. */
record UnreadableTable(Identifier ident, String reason) implements Table {
  @Override
  public String name() {
    return ident.toString();
  }

  @Override
  public Column[] columns() {
    return new Column[0];
  }

  @Override
  public Map<String, String> properties() {
    return Map.of(TableCatalog.PROP_COMMENT, reason);
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of();
  }
}
