package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.TableDescription;
import io.github.pysparkpravega.Requests.TruncateTable;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TruncatableTable;

/** A table as queries load it: TRUNCATE TABLE, or a DELETE of all rows, removes its events or is refused. */
final class TruncatablePravegaTable extends PravegaTable implements TruncatableTable {
  TruncatablePravegaTable(PravegaService service, Identifier ident, TableDescription description) {
    super(service, ident, description);
  }

  @Override
  public boolean truncateTable() {
    service().finish(new TruncateTable(handle()));
    return true;
  }
}
