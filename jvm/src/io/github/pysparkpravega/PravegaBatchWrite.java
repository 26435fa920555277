package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.*;
import io.github.pysparkpravega.Requests.*;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One INSERT. The service begins the transaction when Spark starts the job, keeps it alive, and commits it with the
 * tasks' messages; the writers' Python workers run the tasks.
 */
final class PravegaBatchWrite implements BatchWrite {
  private static final Logger LOG = LoggerFactory.getLogger(PravegaBatchWrite.class);
  private static final int SERVICES = 3;

  private final PravegaTable table;
  private final LogicalWriteInfo info;
  private InsertHandle insert;

  PravegaBatchWrite(PravegaTable table, LogicalWriteInfo info) {
    this.table = table;
    this.info = info;
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
    return writers(table.service().call(new BeginInsert(
        table.handle(), info.schema(), physical.numPartitions(), info.options().asCaseSensitiveMap())));
  }

  DataWriterFactory writers(InsertBegun begun) {
    insert = begun.insert();
    return new PythonWriters(PythonTask.writing(begun.function(), begun.python(), info.schema()));
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    commit((committed, again) -> new CommitInsert(table.handle(), committed, pickled(messages), again));
  }

  /** Makes the request to commit; `again` if a service that has ended may have done it already. */
  interface Commit {
    Request<?> request(InsertHandle insert, boolean again);
  }

  /**
   * A service that ends leaves open what has become of the commit; the one in its place finds out. Other errors say
   * that nothing is visible, or that nobody knows. Either way there is nothing left to abort. A thread that is interrupted
   * commits all the same: whoever cancels the statement must not be left with an unknown outcome.
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
              "Whether the rows of this INSERT into " + table.name() + " are visible is not known: the catalog service"
                  + " ended " + SERVICES + " times while it committed transaction "
                  + committed.transaction() + "; its own messages are on the driver's standard error."
                  + " All of the rows are visible, or none: look at the table before you run the statement again.", e));
        }
      }
    }
  }

  /** Spark hides the error that it aborts for when this fails too. The transaction's lease ends it in any case. */
  @Override
  public void abort(WriterCommitMessage[] messages) {
    if (insert != null) {
      try {
        table.service().finish(new AbortInsert(table.handle(), insert));
      } catch (Exception e) {
        LOG.warn("Aborting an INSERT into {}: {}", table.name(), e.getMessage());
      }
    }
  }

  static List<byte[]> pickled(WriterCommitMessage[] messages) {
    List<byte[]> pickled = new ArrayList<>();
    for (WriterCommitMessage message : messages) {
      if (message instanceof PythonWriterCommitMessage python) {
        pickled.add(python.pickledMessage());
      }
    }
    return pickled;
  }
}
