package io.github.pysparkpravega;

import org.apache.spark.sql.connector.metric.CustomSumMetric;

/** The number of bad events that a scan met, in Spark's UI. Public and without arguments because Spark makes it. */
public final class BadEventsMetric extends CustomSumMetric {
  static final String NAME = "badEvents";

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String description() {
    return "number of events that cannot be decoded";
  }
}
