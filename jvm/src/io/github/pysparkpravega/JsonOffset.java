package io.github.pysparkpravega;

import org.apache.spark.sql.connector.read.streaming.Offset;

/** An offset as the service wrote it. Offsets with equal texts are equal. */
final class JsonOffset extends Offset {
  private final String json;

  JsonOffset(String json) {
    this.json = json;
  }

  @Override
  public String json() {
    return json;
  }
}
