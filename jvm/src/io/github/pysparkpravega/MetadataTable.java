package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A small table about a stream. The service makes its rows for every query. */
record MetadataTable(PravegaService service, Identifier ident, JsonNode description)
    implements SupportsRead, TruncatableTable {
  @Override
  public String name() {
    return description.get("name").asText();
  }

  /** Plans show it in errors. */
  @Override
  public String toString() {
    return name();
  }

  private StructType struct() {
    return PravegaTable.struct(description.get("schema").asText());
  }

  @Override
  public Column[] columns() {
    return SparkLine.columns(struct());
  }

  @Override
  public Set<TableCapability> capabilities() {
    return new Capabilities(this::isStreamed, TableCapability.BATCH_READ);
  }

  private boolean isStreamed() {
    service.refuse(ident, "readStream.table");
    return false;
  }

  @Override
  public boolean truncateTable() {
    service.refuse(ident, "TRUNCATE TABLE");
    return false;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    ObjectNode arguments = PravegaCatalog.arguments(ident);
    arguments.set("options", Service.pairs(options.asCaseSensitiveMap()));
    return () -> new RowsOfService(struct(), () -> service.call("read_metadata", arguments).get("rows"));
  }
}
