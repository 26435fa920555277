package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.KeyedWriteBegun;
import io.github.pysparkpravega.Requests.BeginKeyedWrite;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** DELETE, UPDATE or MERGE of a table whose rows have keys: rows are read, and then replaced or removed by key. */
record PravegaKeyedWrite(PravegaTable table, Command command) implements RowLevelOperation, SupportsDelta {
  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return table.newScanBuilder(options).ofKeyedWrite();
  }

  @Override
  public NamedReference[] rowId() {
    return table.rowKey();
  }

  @Override
  public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new DeltaWriteBuilder() {
      @Override
      public DeltaWrite build() {
        return new ChangesByKey(table, info);
      }
    };
  }

  private record ChangesByKey(PravegaTable table, LogicalWriteInfo info) implements DeltaWrite, WriteByKey {
    @Override
    public DeltaBatchWrite toBatch() {
      return new Changes(table, info);
    }
  }

  /** Tasks write as they go, so that there is nothing to commit. */
  private record Changes(PravegaTable table, LogicalWriteInfo info) implements DeltaBatchWrite {
    @Override
    public DeltaWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
      StructType schema = KeyedWriters.input("id", info.rowIdSchema().get(), info.schema());
      KeyedWriteBegun begun = table.service().call(
          new BeginKeyedWrite(table.handle(), info.schema(), info.options().asCaseSensitiveMap()));
      return new KeyedWriters(PythonTask.ofWriter(begun.function(), begun.python(), schema), false);
    }

    /** Spark's coordinator may still hold the turn of an attempt whose last rows failed, and deny the next one. */
    @Override
    public boolean useCommitCoordinator() {
      return false;
    }

    @Override
    public void commit(WriterCommitMessage[] messages) {}

    @Override
    public void abort(WriterCommitMessage[] messages) {}
  }
}
