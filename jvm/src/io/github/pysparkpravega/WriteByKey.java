package io.github.pysparkpravega;

import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;

/**
 * A write whose rows replace those of the same keys, and are visible at once. A shuffle by key separates it from what
 * the query reads: the query sees no row that the same statement has written, and a task that runs again writes the
 * same rows.
 */
interface WriteByKey extends RequiresDistributionAndOrdering {
  PravegaTable table();

  @Override
  default Distribution requiredDistribution() {
    return Distributions.clustered(table().rowKey());
  }

  @Override
  default SortOrder[] requiredOrdering() {
    return new SortOrder[0];
  }
}
