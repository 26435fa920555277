package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.MetadataDescription;
import io.github.pysparkpravega.Requests.ReadMetadata;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A small table about a stream. The service makes its rows again for every query. */
record MetadataTable(PravegaService service, Identifier ident, MetadataDescription description)
    implements SupportsRead, TruncatableTable {
  @Override
  public String name() {
    return description.name();
  }

  /** Plans show it in errors. */
  @Override
  public String toString() {
    return name();
  }

  @Override
  public Column[] columns() {
    return SparkLine.columns(description.schema());
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
    ReadMetadata request = new ReadMetadata(ident.namespace(), ident.name(), options.asCaseSensitiveMap());
    return () -> new RowsOfService(description.schema(), () -> service.call(request).rows());
  }
}
