package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.read.streaming.CompositeReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxBytes;
import org.apache.spark.sql.connector.read.streaming.ReadMaxRows;
import org.apache.spark.sql.connector.read.streaming.ReadMinRows;

/** Limits of micro-batches: Spark's own, and the service's description of them. */
final class ReadLimits {
  private ReadLimits() {}

  static ReadLimit of(JsonNode limits) {
    List<ReadLimit> all = new ArrayList<>();
    if (!limits.get("min_rows").isNull()) {
      all.add(ReadLimit.minRows(limits.get("min_rows").asLong(), limits.get("max_delay_ms").asLong()));
    }
    if (!limits.get("max_rows").isNull()) {
      all.add(ReadLimit.maxRows(limits.get("max_rows").asLong()));
    }
    if (!limits.get("max_bytes").isNull()) {
      all.add(ReadLimit.maxBytes(limits.get("max_bytes").asLong()));
    }
    return all.size() == 1 ? all.get(0) : ReadLimit.compositeLimit(all.toArray(new ReadLimit[0]));
  }

  static ObjectNode json(ReadLimit limit) {
    ObjectNode limits = Service.JSON.createObjectNode();
    limits.putNull("max_bytes").putNull("max_rows").putNull("min_rows").put("max_delay_ms", 0);
    for (ReadLimit each : limit instanceof CompositeReadLimit composite ? composite.getReadLimits() : new ReadLimit[] {limit}) {
      if (each instanceof ReadMaxBytes bytes) {
        limits.put("max_bytes", bytes.maxBytes());
      } else if (each instanceof ReadMaxRows rows) {
        limits.put("max_rows", rows.maxRows());
      } else if (each instanceof ReadMinRows rows) {
        limits.put("min_rows", rows.minRows()).put("max_delay_ms", rows.maxTriggerDelayMs());
      }
    }
    return limits;
  }
}
