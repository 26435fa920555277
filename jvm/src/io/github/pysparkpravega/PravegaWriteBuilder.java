package io.github.pysparkpravega;

import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;

/** Appends are built; every kind of overwrite is refused with the service's sentence. */
final class PravegaWriteBuilder implements WriteBuilder, SupportsOverwriteV2, SupportsDynamicOverwrite {
  private final PravegaTable table;
  private final LogicalWriteInfo info;

  PravegaWriteBuilder(PravegaTable table, LogicalWriteInfo info) {
    this.table = table;
    this.info = info;
  }

  @Override
  public boolean canOverwrite(Predicate[] predicates) {
    return true;
  }

  @Override
  public WriteBuilder overwrite(Predicate[] predicates) {
    table.refuse("INSERT OVERWRITE");
    return this;
  }

  @Override
  public WriteBuilder truncate() {
    return overwrite(new Predicate[0]);
  }

  @Override
  public WriteBuilder overwriteDynamicPartitions() {
    return overwrite(new Predicate[0]);
  }

  @Override
  public Write build() {
    return new Write() {
      @Override
      public String description() {
        return table.name();
      }

      @Override
      public BatchWrite toBatch() {
        return new PravegaBatchWrite(table, info);
      }
    };
  }
}
