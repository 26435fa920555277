package io.github.pysparkpravega;

import org.apache.spark.sql.connector.metric.CustomSumMetric;

/** The number of changes that a scan leaves out, in Spark's UI. Public and without arguments because Spark makes it. */
public final class LeftOutMetric extends CustomSumMetric {
  static final String NAME = "leftOut";

  @Override
  public String name() {
    return NAME;
  }

  @Override
  public String description() {
    return "number of changes left out, as newer ones of their rows came first";
  }
}
