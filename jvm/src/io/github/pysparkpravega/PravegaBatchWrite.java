package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.function.Function;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
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
  private JsonNode insert;

  PravegaBatchWrite(PravegaTable table, LogicalWriteInfo info) {
    this.table = table;
    this.info = info;
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
    return begin(arguments -> table.call("begin_insert", arguments), physical, Service.JSON.createObjectNode());
  }

  DataWriterFactory begin(Function<ObjectNode, JsonNode> call, PhysicalWriteInfo physical, ObjectNode arguments) {
    arguments.put("schema", info.schema().json()).put("tasks", physical.numPartitions());
    arguments.set("options", Service.pairs(info.options().asCaseSensitiveMap()));
    JsonNode begun = call.apply(arguments);
    insert = begun.get("insert");
    return new PythonWriters(new PythonTask(
        PythonWorkers.source(begun.get("python").asText()), PravegaScan.bytes(begun.get("function")),
        "write_to_data_source", info.schema(), UserDefinedPythonDataSource.writeOutputSchema(),
        PythonWorkers.artifacts()));
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    commit("commit_insert", Service.JSON.createObjectNode(), messages);
  }

  /**
   * A service that ends leaves open what has become of the commit; the one in its place finds out. Other errors say
   * that nothing is visible, or that nobody knows. Either way there is nothing left to abort.
   */
  void commit(String operation, ObjectNode arguments, WriterCommitMessage[] messages) {
    JsonNode committed = insert;
    insert = null;
    for (int services = 1;; services++) {
      try {
        commit(operation, arguments, committed, messages, services > 1);
        return;
      } catch (Exception e) {
        if (!PravegaException.is(e, "PRAVEGA_SERVICE_FAILED")) {
          throw e;
        }
        if (table.takesUpdates()) {
          return; // the tasks have stored all rows, and there is no transaction
        }
        if (services == SERVICES) {
          throw PravegaException.unchecked(new PravegaException("PRAVEGA_TRANSACTION_OUTCOME_UNKNOWN", "08007",
              "Whether the rows of this INSERT into " + table.name() + " are visible is not known: the catalog service"
                  + " ended " + SERVICES + " times while it committed transaction "
                  + committed.get("transaction").asText() + "; its own messages are on the driver's standard error."
                  + " All of the rows are visible, or none: look at the table before you run the statement again.", e));
        }
      }
    }
  }

  /** Spark hides the error that it aborts for when this fails too. The transaction's lease ends it in any case. */
  @Override
  public void abort(WriterCommitMessage[] messages) {
    if (insert != null) {
      ObjectNode arguments = Service.JSON.createObjectNode();
      arguments.set("insert", insert);
      try {
        table.finish("abort_insert", arguments);
      } catch (Exception e) {
        LOG.warn("Aborting an INSERT into {}: {}", table.name(), e.getMessage());
      }
    }
  }

  /** Even in a thread that is interrupted: whoever cancels the statement must not be left with an unknown outcome. */
  private void commit(
      String operation, ObjectNode arguments, JsonNode insert, WriterCommitMessage[] messages, boolean again) {
    arguments.put("again", again);
    ArrayNode pickled = arguments.putArray("messages");
    for (WriterCommitMessage message : messages) {
      if (message instanceof PythonWriterCommitMessage python) {
        pickled.add(python.pickledMessage());
      }
    }
    arguments.set("insert", insert);
    table.finish(operation, arguments);
  }
}
