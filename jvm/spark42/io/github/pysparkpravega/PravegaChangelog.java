package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogContext;
import org.apache.spark.sql.connector.catalog.ChangelogRange;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The changes of a table in a range, as the catalog service described them. Updates have both their images. */
final class PravegaChangelog implements Changelog {
  private final PravegaTable changes;
  private final JsonNode rowKey;

  PravegaChangelog(PravegaTable changes, JsonNode rowKey) {
    this.changes = changes;
    this.rowKey = rowKey;
  }

  static void describe(ChangelogContext context, ObjectNode json) {
    ChangelogRange range = context.range();
    json.put("net", context.deduplicationMode() == ChangelogContext.DeduplicationMode.NET_CHANGES);
    if (range instanceof ChangelogRange.VersionRange versions) {
      json.put("unit", "version").put("start", versions.startingVersion());
      json.put("end", versions.endingVersion().orElse(null));
    } else if (range instanceof ChangelogRange.TimestampRange times) {
      json.put("unit", "timestamp").put("start", Long.toString(times.startingTimestamp()));
      json.put("end", times.endingTimestamp().map(String::valueOf).orElse(null));
    } else {
      json.put("unit", "version").putNull("start").putNull("end"); // Spark's open range refuses to tell more
      json.put("start_inclusive", true).put("end_inclusive", true);
      return;
    }
    json.put("start_inclusive", range.startingBoundInclusive()).put("end_inclusive", range.endingBoundInclusive());
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
    return !rowKey.isEmpty();
  }

  @Override
  public boolean representsUpdateAsDeleteAndInsert() {
    return false;
  }

  @Override
  public NamedReference[] rowId() {
    return PravegaTable.references(rowKey);
  }

  void checkReadOptions(CaseInsensitiveStringMap options) {
    changes.checkReadOptions(options);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return changes.newScanBuilder(options);
  }
}
