package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import io.github.pysparkpravega.Replies.*;
import io.github.pysparkpravega.Requests.*;
import java.util.*;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One INSERT. The service begins the transaction when Spark starts the job, keeps it alive, and commits it with the
 * messages of the tasks, which run in Python workers.
 */
class PravegaBatchWrite implements BatchWrite {
  private static final Logger LOG = LoggerFactory.getLogger(PravegaBatchWrite.class);
  private static final int SERVICES = 3;

  private final PravegaTable table;
  private final LogicalWriteInfo info;
  private InsertHandle insert;
  private List<JsonNode> read; // the ends of scans of this table, if its rows may depend on them

  PravegaBatchWrite(PravegaTable table, LogicalWriteInfo info) {
    this.table = table;
    this.info = info;
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
    read = table.hasChangesByKey() ? ScansOfThread.ends(table) : List.of();
    return writers(table.service().call(
        new BeginInsert(table.handle(), info.schema(), physical.numPartitions(), options(), !read.isEmpty())));
  }

  DataWriterFactory writers(InsertBegun begun) {
    return new PythonWriters(begin(begun, info.schema()), false);
  }

  Map<String, String> options() {
    return info.options().asCaseSensitiveMap();
  }

  /** Takes over the transaction that has begun; returns the function of its tasks, which take these rows. */
  PythonTask begin(InsertBegun begun, StructType rows) {
    insert = Objects.requireNonNull(begun.insert());
    return PythonTask.ofWriter(begun.function(), begun.python(), rows);
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    List<byte[]> reports = messagesOf(messages);
    commit((committed, again) -> read.isEmpty()
        ? new CommitInsert(table.handle(), committed, reports, again)
        : new CommitChanges(table.handle(), committed, reports, again, "INSERT", read, null));
  }

  /** Makes the request to commit; `again` if a service that has ended may have done it already. */
  interface Commit {
    Request<?> request(InsertHandle insert, boolean again);
  }

  /**
   * Commits the rows. If the service ends meanwhile, the next one finds out what has become of the commit. Other errors
   * say that nothing is visible, or that nobody knows. Either way there is nothing left to abort. An interrupted thread
   * waits for the outcome: a commit that waits for its turn is given up, another one ends as if nothing had happened.
   */
  void commit(Commit commit) {
    InsertHandle committed = insert;
    insert = null;
    for (int services = 1;; services++) {
      try {
        table.service().finish(commit.request(committed, services > 1));
        return;
      } catch (Exception e) {
        if (!PravegaException.is(e, Service.FAILED)) {
          throw e;
        }
        if (table.takesUpdates()) {
          return; // the tasks have stored all rows, and there is no transaction
        }
        if (services == SERVICES) {
          throw PravegaException.unchecked(new PravegaException("PRAVEGA_TRANSACTION_OUTCOME_UNKNOWN", "08007",
              "It is not known whether the rows of this INSERT into " + table.name() + " are visible: the catalog"
                  + " service ended " + SERVICES + " times while it committed transaction "
                  + committed.id() + "; its own messages are on the driver's standard error."
                  + " Either all of the rows are visible or none: check the table before you run the statement again.",
              e));
        }
      }
    }
  }

  /**
   * Only logs its own failure, which would hide the error that Spark aborts for. The lease ends the transaction anyway.
   */
  @Override
  public void abort(WriterCommitMessage[] messages) {
    if (insert != null) {
      try {
        table.service().finish(new AbortInsert(table.handle(), insert));
      } catch (Exception e) {
        LOG.warn("Cannot abort an INSERT into {}: {}", table.name(), e.getMessage());
      }
    }
  }

  static List<byte[]> messagesOf(WriterCommitMessage[] messages) {
    return Arrays.stream(messages).filter(PythonWriters.Written.class::isInstance)
        .flatMap(message -> ((PythonWriters.Written) message).reports().stream()).toList();
  }
}
