package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.Limits;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxBytes;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.ReadMinRows;

/** Turns the service's limits of micro-batches into Spark's, and vice versa. */
final class ReadLimits {
  static ReadLimit of(Limits limits) {
    List<ReadLimit> all = new ArrayList<>();
    if (limits.minRows() != null) {
      all.add(ReadLimit.minRows(limits.minRows(), limits.maxDelayMs()));
    }
    if (limits.maxRows() != null) {
      all.add(ReadLimit.maxRows(limits.maxRows()));
    }
    if (limits.maxBytes() != null) {
      all.add(ReadLimit.maxBytes(limits.maxBytes()));
    }
    return all.size() == 1 ? all.get(0) : ReadLimit.compositeLimit(all.toArray(new ReadLimit[0]));
  }

  static Limits describe(ReadLimit limit) {
    Long maxBytes = null;
    Long maxRows = null;
    Long minRows = null;
    long maxDelayMs = 0;
    ReadLimit[] parts =
        limit instanceof CompositeReadLimit composite ? composite.getReadLimits() : new ReadLimit[] {limit};
    for (ReadLimit part : parts) {
      if (part instanceof ReadMaxBytes bytes) {
        maxBytes = bytes.maxBytes();
      } else if (part instanceof ReadMaxRows rows) {
        maxRows = rows.maxRows();
      } else if (part instanceof ReadMinRows rows) {
        minRows = rows.minRows();
        maxDelayMs = rows.maxTriggerDelayMs();
      }
    }
    return new Limits(maxBytes, maxRows, minRows, maxDelayMs);
  }
}
