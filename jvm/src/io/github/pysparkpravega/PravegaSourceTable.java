package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.SourceDescription;
import io.github.pysparkpravega.Requests.LoadSource;
import java.util.*;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The table that options name. It is loaded again for every scan and write, because Spark keeps this one as long as the
 * DataFrame or the view lives.
 */
final class PravegaSourceTable implements SupportsRead, SupportsWrite, SupportsMetadataColumns {
  private final Map<String, String> options;
  private final StructType given;
  private final long madeAt = System.nanoTime();
  private PravegaTable described;
  private PravegaTable written;
  private String writer;

  /** @param given the schema of the user or of the rows to write, null for that of the stream. */
  PravegaSourceTable(Map<String, String> options, StructType given) {
    this.options = options;
    this.given = given;
  }

  /** Throws the service's error for a table in Spark's own catalog, which it knows by an owner in the options. */
  static void refuseCreation(String name) {
    new PravegaSourceTable(Map.of("owner", "", "stream", name), null).findSchema();
  }

  @Override
  public String name() {
    return "pravega";
  }

  @Override
  public String toString() {
    return name();
  }

  StructType findSchema() {
    return given != null ? given : CatalogV2Util.v2ColumnsToStructType(loadOnce().columns());
  }

  @Override
  public Column[] columns() {
    return SparkLine.columns(findSchema());
  }

  @Override
  public MetadataColumn[] metadataColumns() {
    return loadOnce().metadataColumns();
  }

  /** Returns nothing but lineage, for which the table is loaded. */
  @Override
  public Map<String, String> properties() {
    return new PropertiesWithLineage(Map.of(), () -> loadOnce().lineage());
  }

  @Override
  public Set<TableCapability> capabilities() {
    // The service checks the rows to write: Spark believes that they have the schema of the table.
    return new Capabilities(() -> loadOnce().capabilities().contains(TableCapability.MICRO_BATCH_READ),
        TableCapability.BATCH_READ, TableCapability.BATCH_WRITE, TableCapability.STREAMING_WRITE,
        TableCapability.ACCEPT_ANY_SCHEMA, TableCapability.TRUNCATE);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return load(findSchema(), false).newScanBuilder(options);
  }

  /** All micro-batches of a streaming query write the table as it was at the first one. */
  @Override
  public synchronized WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    if (!info.queryId().equals(writer)) {
      written = load(info.schema(), true).loadedAt(madeAt);
      writer = info.queryId();
    }
    return written.newWriteBuilder(info);
  }

  private synchronized PravegaTable loadOnce() {
    if (described == null) {
      described = load(given, false);
    }
    return described;
  }

  private PravegaTable load(StructType schema, boolean writing) {
    TreeSet<String> session = new TreeSet<>();
    CollectionConverters.asJava(SQLConf.get().getAllConfs()).forEach((key, text) -> {
      if (key.startsWith(DriverConf.CATALOG) && text.equals(PravegaCatalog.class.getName())) {
        session.add(key.substring(DriverConf.CATALOG.length()));
      }
    });
    String only = session.size() == 1 ? session.first() : "";
    String wanted = new CaseInsensitiveStringMap(options).getOrDefault("catalog", only);
    PravegaService service = session.contains(wanted)
        ? ((PravegaCatalog) SparkSession.active().sessionState().catalogManager().catalog(wanted)).service()
        : PravegaService.ofEnvironment();
    SourceDescription source = service.call(new LoadSource(options, schema, writing, List.copyOf(session)));
    String[] stream = source.identifier();
    return new PravegaTable(new PravegaService(service.python(), source.connection()),
        Identifier.of(new String[] {stream[0]}, stream[1]), source.table());
  }
}
