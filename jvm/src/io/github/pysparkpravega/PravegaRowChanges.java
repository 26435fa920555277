package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import io.github.pysparkpravega.Replies.*;
import io.github.pysparkpravega.Requests.*;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
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

/**
 * DELETE, UPDATE or MERGE of a table whose rows have keys. Rows are read, and then replaced or removed by key; of a
 * table of changes, what the statement does to rows becomes the events of one transaction.
 */
final class PravegaRowChanges implements RowLevelOperation, SupportsDelta {
  private final PravegaTable table;
  private final Command command;
  private PravegaScanBuilder scan;

  PravegaRowChanges(PravegaTable table, Command command) {
    this.table = table;
    this.command = command;
  }

  @Override
  public Command command() {
    return command;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    scan = table.newScanBuilder(options).ofKeyedWrite();
    return scan;
  }

  @Override
  public NamedReference[] rowId() {
    return table.rowKey();
  }

  /** Asks for the whole former row: Spark hands over no more of it than what the scan calls metadata. */
  @Override
  public NamedReference[] requiredMetadataAttributes() {
    return table.takesUpdates()
        ? new NamedReference[0]
        : new NamedReference[] {Expressions.column(PravegaTable.FORMER_ROW)};
  }

  @Override
  public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new DeltaWriteBuilder() {
      @Override
      public DeltaWrite build() {
        return table.takesUpdates() ? new ByKey(info) : new CountedWrite() {
          @Override
          public DeltaBatchWrite toBatch() {
            return new Changes(info, this);
          }
        };
      }
    };
  }

  /** Shows what its tasks have written, as an INSERT does; Spark itself shows how many rows were changed. */
  private abstract static class CountedWrite implements DeltaWrite {
    private final long[] numbers = new long[TaskMetric.OF_WRITES.size()];

    void count(WriterCommitMessage[] messages) {
      for (WriterCommitMessage message : messages) {
        if (message instanceof PythonWriters.Written written) {
          Arrays.setAll(numbers, index -> numbers[index] + written.numbers()[index]);
        }
      }
    }

    @Override
    public CustomMetric[] supportedCustomMetrics() {
      return TaskMetric.OF_WRITES.toArray(CustomMetric[]::new);
    }

    @Override
    public CustomTaskMetric[] reportDriverMetrics() {
      return TaskMetric.values(new CustomTaskMetric[0], TaskMetric.OF_WRITES, numbers);
    }
  }

  private final class Changes extends PravegaBatchWrite implements DeltaBatchWrite {
    private final StructType rows;
    private List<JsonNode> ends;
    private List<Condition> conditions; // null if the statement depends on any row of the table
    private final CountedWrite counts;

    Changes(LogicalWriteInfo info, CountedWrite counts) {
      super(PravegaRowChanges.this.table, info);
      this.counts = counts;
      rows = KeyedWriters.input("former", info.metadataSchema().get(), info.schema());
    }

    @Override
    public DeltaWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
      ends = ScansOfThread.ends(table);
      conditions = command == Command.MERGE || scan == null || ends.size() > 1 ? null : scan.conditions();
      BeginChanges request = new BeginChanges(table.handle(), physical.numPartitions(), options());
      return new KeyedWriters(begin(table.service().call(request), rows), true);
    }

    @Override
    public void commit(WriterCommitMessage[] messages) {
      List<byte[]> reports = messagesOf(messages);
      commit((insert, again) -> new CommitChanges(table.handle(),
          new InsertHandle(insert.kind(), insert.id(), reports.size(), insert.options(), insert.seen()), reports, again,
          command.toString(), ends, conditions));
      counts.count(messages);
    }
  }

  private final class ByKey extends CountedWrite implements WriteByKey {
    private final LogicalWriteInfo info;

    ByKey(LogicalWriteInfo info) {
      this.info = info;
    }

    @Override
    public PravegaTable table() {
      return table;
    }

    @Override
    public DeltaBatchWrite toBatch() {
      return new ChangesByKey(table, info, this);
    }
  }

  /** Tasks write as they go, so that there is nothing to commit. */
  private record ChangesByKey(PravegaTable table, LogicalWriteInfo info, CountedWrite counts) implements DeltaBatchWrite {
    @Override
    public DeltaWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
      StructType schema = KeyedWriters.input("id", info.rowIdSchema().get(), info.schema());
      InsertBegun begun = table.service().call(
          new BeginKeyedWrite(table.handle(), info.schema(), info.options().asCaseSensitiveMap()));
      return new KeyedWriters(PythonTask.ofWriter(begun.function(), begun.python(), schema), false);
    }

    /** Spark's coordinator may still hold the turn of an attempt whose last rows failed, and deny the next one. */
    @Override
    public boolean useCommitCoordinator() {
      return false;
    }

    @Override
    public void commit(WriterCommitMessage[] messages) {
      counts.count(messages);
    }

    @Override
    public void abort(WriterCommitMessage[] messages) {}
  }
}
