package io.github.pysparkpravega;

import org.apache.spark.sql.connector.read.streaming.Offset;

/** An offset as the service wrote it. Two are equal if their texts are. */
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
