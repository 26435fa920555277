package io.github.pysparkpravega;

import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.util.Arrays;
import java.util.Locale;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.AccessControlException;
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
      Path checkpoint = new Path(start.resolvedCheckpointLocation());
      Configuration conf = session.sessionState().newHadoopConf();
      if (StreamMetadata$.MODULE$.read(new Path(checkpoint, "metadata"), conf).isEmpty()) {
        checkNotMoved(checkpoint, conf);
      }
      table.make();
    }
  }

  /** Refuses a new query where a driver died between the two moves of restore_savepoint: it would read all again. */
  private static void checkNotMoved(Path checkpoint, Configuration conf) {
    if (checkpoint.isRoot()) {
      return; // nobody can move it
    }
    try {
      FileSystem files = checkpoint.getFileSystem(conf);
      for (FileStatus moved : files.listStatus(checkpoint.getParent(),
          path -> path.getName().matches(Pattern.quote(checkpoint.getName()) + "\\.until-\\d+"))) {
        Path copy = new Path(moved.getPath().toString().replaceFirst("\\.until-(\\d+)$", ".new-$1"));
        if (files.exists(copy)) {
          if (files.exists(checkpoint) && files.listStatus(checkpoint).length == 0) {
            files.delete(checkpoint, false); // Spark has just made it
          }
          throw PravegaException.unchecked(new PravegaException("PRAVEGA_INVALID_OPTION", "42616", "The checkpoint "
              + checkpoint + " has no query, because a call of restore_savepoint was cut off. Repeat the call, or"
              + " rename " + moved.getPath() + " to it to go on without the savepoint."
              + " For a new query, delete " + copy + ".", null));
        }
      }
    } catch (AccessDeniedException | AccessControlException e) {
      return; // who may not list the directory has moved nothing in it
    } catch (IOException e) {
      throw PravegaException.unchecked(e);
    }
  }
}
