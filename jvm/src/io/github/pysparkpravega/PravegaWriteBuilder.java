package io.github.pysparkpravega;

import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.write.*;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;

/** Builds appends. It refuses overwrites, and the output modes of streams that need them. */
record PravegaWriteBuilder(PravegaTable table, LogicalWriteInfo info) implements WriteBuilder, SupportsOverwriteV2,
    SupportsDynamicOverwrite, SupportsStreamingUpdateAsAppend {
  @Override
  public boolean canOverwrite(Predicate[] predicates) {
    return true;
  }

  @Override
  public WriteBuilder overwrite(Predicate[] predicates) {
    if (!table.isMadeByStatement()) {
      table.refuse("INSERT OVERWRITE");
    }
    return this;
  }

  @Override
  public WriteBuilder truncate() {
    checkOutputMode();
    return isComplete() ? this : overwrite(new Predicate[0]);
  }

  private boolean isComplete() {
    return PravegaStreamingWrite.outputMode(info).equals("complete");
  }

  @Override
  public WriteBuilder overwriteDynamicPartitions() {
    return overwrite(new Predicate[0]);
  }

  /** A micro-batch cannot read what it writes, and Spark would shuffle it into as many tasks as for a large query. */
  @Override
  public Write build() {
    if (isComplete()) {
      return new InOneTask();
    }
    return table.takesUpdates() && PravegaStreamingWrite.query(info.queryId()) == null ? new ByKey() : new Appending();
  }

  private class Appending implements Write {
    @Override
    public String description() {
      return table.name();
    }

    @Override
    public CustomMetric[] supportedCustomMetrics() {
      return TaskMetric.withPython(TaskMetric.OF_WRITES);
    }

    @Override
    public BatchWrite toBatch() {
      return new PravegaBatchWrite(table, info);
    }

    @Override
    public StreamingWrite toStreaming() {
      if (PravegaStreamingWrite.query(info.queryId()) == null) {
        table.refuse("trigger(continuous)"); // whose writes have other ids; only micro-batches are transactions
      }
      checkOutputMode();
      return new PravegaStreamingWrite(table, info);
    }
  }

  private class ByKey extends Appending implements WriteByKey {
    @Override
    public PravegaTable table() {
      return table;
    }
  }

  /** Writes a whole result, which one task compares with the rows that the table has. */
  private final class InOneTask extends ByKey {
    @Override
    public int requiredNumPartitions() {
      return 1;
    }
  }

  private void checkOutputMode() {
    table.checkOutputMode(PravegaStreamingWrite.outputMode(info));
  }
}
