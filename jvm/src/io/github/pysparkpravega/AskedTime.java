package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.catalog.TimeTravel;

/** VERSION AS OF and TIMESTAMP AS OF, as the service knows them. Spark 4.2 has no class for the two. */
record AskedTime(String unit, String text) {
  static AskedTime version(String version) {
    return new AskedTime("version", version);
  }

  static AskedTime timestamp(long micros) {
    return new AskedTime("timestamp", Long.toString(micros));
  }

  static AskedTime of(TimeTravel asked) {
    return asked instanceof TimeTravel.AsOfVersion version
        ? version(version.version())
        : timestamp(((TimeTravel.AsOfTimestamp) asked).micros());
  }

  void describe(ObjectNode at) {
    at.put("unit", unit).put("text", text);
  }
}
