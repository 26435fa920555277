package io.github.pysparkpravega;

import io.github.pysparkpravega.Requests.ChangeRange;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogContext;
import org.apache.spark.sql.connector.catalog.ChangelogRange;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The changes of a table in a range, as the catalog service described them. Updates have both images. */
record PravegaChangelog(PravegaTable changes) implements Changelog {
  static ChangeRange describe(ChangelogContext context) {
    ChangelogRange range = context.range();
    boolean net = context.deduplicationMode() == ChangelogContext.DeduplicationMode.NET_CHANGES;
    if (range instanceof ChangelogRange.VersionRange versions) {
      return new ChangeRange("version", versions.startingVersion(), versions.endingVersion().orElse(null),
          range.startingBoundInclusive(), range.endingBoundInclusive(), net);
    }
    if (range instanceof ChangelogRange.TimestampRange times) {
      return new ChangeRange("timestamp", Long.toString(times.startingTimestamp()),
          times.endingTimestamp().map(String::valueOf).orElse(null), range.startingBoundInclusive(),
          range.endingBoundInclusive(), net);
    }
    return new ChangeRange("version", null, null, true, true, net); // Spark's open range refuses to say more
  }

  @Override
  public String name() {
    return changes.name();
  }

  @Override
  public Column[] columns() {
    return changes.columns();
  }

  @Override
  public boolean containsCarryoverRows() {
    return false;
  }

  @Override
  public boolean containsIntermediateChanges() {
    return changes.hasRowKey();
  }

  @Override
  public boolean representsUpdateAsDeleteAndInsert() {
    return false;
  }

  @Override
  public NamedReference[] rowId() {
    return changes.rowKey();
  }

  void checkReadOptions(CaseInsensitiveStringMap options) {
    changes.checkReadOptions(options);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return changes.newScanBuilder(options);
  }
}
