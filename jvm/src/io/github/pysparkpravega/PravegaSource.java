package io.github.pysparkpravega;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** {@code format("pravega")}: a table by options instead of its name in a catalog. Spark makes one for each use. */
public final class PravegaSource implements TableProvider, DataSourceRegister {
  private PravegaSourceTable inferred;

  @Override
  public String shortName() {
    return "pravega";
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    inferred = new PravegaSourceTable(options.asCaseSensitiveMap(), null);
    return inferred.findSchema();
  }

  /** Makes the table; the schema is the inferred one, the user's, or that of the rows to write. */
  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> options) {
    PravegaSourceTable table = inferred == null ? new PravegaSourceTable(options, schema) : inferred;
    inferred = null;
    return table;
  }

  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }
}
