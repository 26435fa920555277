package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.catalog.TimeTravel;

/** Describes VERSION AS OF and TIMESTAMP AS OF to the service. */
final class AskedTime {
  private AskedTime() {}

  static void describe(TimeTravel asked, ObjectNode at) {
    if (asked instanceof TimeTravel.AsOfVersion version) {
      at.put("unit", "version").put("text", version.version());
    } else if (asked instanceof TimeTravel.AsOfTimestamp timestamp) {
      at.put("unit", "timestamp").put("text", Long.toString(timestamp.micros()));
    }
  }
}
