package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.node.ObjectNode;

/** VERSION AS OF and TIMESTAMP AS OF, as the service knows them. */
record AskedTime(String unit, String text) {
  static AskedTime version(String version) {
    return new AskedTime("version", version);
  }

  static AskedTime timestamp(long micros) {
    return new AskedTime("timestamp", Long.toString(micros));
  }

  void describe(ObjectNode at) {
    at.put("unit", unit).put("text", text);
  }
}
