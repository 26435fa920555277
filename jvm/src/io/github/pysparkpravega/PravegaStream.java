package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.*;
import io.github.pysparkpravega.Requests.*;
import java.util.Map;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingSourceOffset;
import org.apache.spark.sql.types.StructType;

/** What a streaming query reads: the service knows its offsets, and plans what lies between two of them. */
abstract class PravegaStream implements MicroBatchStream, SupportsTriggerAvailableNow {
  final PravegaTable table;
  final StreamQuery query;
  private String last;
  private String planned;
  volatile MicroBatchEnd end;
  PlannedRead plan;

  PravegaStream(PravegaTable table, StructType columns, Map<String, String> options, String checkpoint) {
    this.table = table;
    this.query = table.query(columns, options, checkpoint);
  }

  /** The limits that the options of the query give: Spark hands them back, unless the query is to take all. */
  private record OwnLimit(Limits limits) implements ReadLimit {}

  /** Returns the name of the source in a query's progress. */
  @Override
  public String toString() {
    return table.name();
  }

  <T> T ask(Request<T> request) {
    return table.service().repeat(request);
  }

  @Override
  public Offset initialOffset() {
    return new PythonStreamingSourceOffset(ask(new StartOfStream(query)));
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return new OwnLimit(ask(new LimitsOfStream(query)));
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("Spark calls latestOffset(Offset, ReadLimit) instead");
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    last = ask(new LastOfStream(query));
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    Limits limits = limit instanceof OwnLimit own ? own.limits() : new Limits(null, null, null, 0); // the trigger `once`
    end = ask(new EndOfMicroBatch(query, start.json(), last, limits));
    return new PythonStreamingSourceOffset(end.offset());
  }

  /** Plans what lies between two offsets, once for all that ask. */
  final synchronized PlannedRead plan(Offset start, Offset end) {
    String range = start.json() + "\n" + end.json();
    if (!range.equals(planned)) {
      plan = planBetween(start, end);
      planned = range;
    }
    return plan;
  }

  abstract PlannedRead planBetween(Offset start, Offset end);

  /** Returns whether tasks may read a micro-batch more than once. */
  boolean isRepeatable() {
    return true;
  }

  @Override
  public Offset deserializeOffset(String json) {
    return new PythonStreamingSourceOffset(json);
  }

  @Override
  public void commit(Offset end) {
    ask(new CommitMicroBatch(query, end.json()));
  }

  @Override
  public void stop() {
    ask(new StopStream(query.checkpoint()));
  }
}
