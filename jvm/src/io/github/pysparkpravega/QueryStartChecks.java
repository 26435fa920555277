package io.github.pysparkpravega;

import java.util.Arrays;
import java.util.Locale;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.WriteToStream;
import org.apache.spark.sql.catalyst.streaming.WriteToStreamStatement;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.ContinuousTrigger;
import org.apache.spark.sql.execution.streaming.runtime.StreamMetadata$;
import org.apache.spark.sql.streaming.StreamingQuery;

/**
 * Checks a streaming query into a table when it starts; the trigger first, because Spark hides it from later checks.
 * The table of toTable is made after all checks, so that a query that cannot start leaves none behind.
 */
final class QueryStartChecks extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (plan instanceof WriteToStreamStatement start && start.sink() instanceof PravegaTable table) {
      if (start.trigger() instanceof ContinuousTrigger) {
        table.refuse("trigger(continuous)");
      }
      if (PravegaStreamingWrite.hasNewRowsOnly(start.trigger(), start.inputQuery())) {
        table.noteNewRows();
      }
    }
    return plan;
  }

  /** Checks a query that has passed all checks of Spark's analysis. */
  static void check(SparkSession session, WriteToStream start, PravegaTable table) {
    table.checkOutputMode(start.outputMode().toString().toLowerCase(Locale.ROOT));
    boolean taken = Arrays.stream(session.streams().active()).map(StreamingQuery::name)
        .anyMatch(name -> name != null && name.equals(start.name()));
    if (!taken) { // else Spark will say so
      Path metadata = new Path(start.resolvedCheckpointLocation(), "metadata");
      StreamMetadata$.MODULE$.read(metadata, session.sessionState().newHadoopConf());
      table.make();
    }
  }
}
