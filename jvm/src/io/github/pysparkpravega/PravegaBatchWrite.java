package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import scala.Option;

/**
 * One INSERT. The service begins the transaction when Spark starts the job, keeps it alive, and commits it with the
 * tasks' messages; Spark's own Python writer factory runs the tasks.
 */
final class PravegaBatchWrite implements BatchWrite {
  private final PravegaTable table;
  private final LogicalWriteInfo info;
  private JsonNode insert;

  PravegaBatchWrite(PravegaTable table, LogicalWriteInfo info) {
    this.table = table;
    this.info = info;
  }

  @Override
  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
    ObjectNode arguments = Service.JSON.createObjectNode().put("schema", info.schema().json());
    arguments.put("tasks", physical.numPartitions());
    arguments.set("options", Service.pairs(info.options().asCaseSensitiveMap()));
    JsonNode begun = table.call("begin_insert", arguments);
    insert = begun.get("insert");
    return new TaskErrors.Writes(new PythonBatchWriterFactory(PythonWorkers.source(begun.get("python").asText()),
        PravegaScan.bytes(begun.get("function")), info.schema(), PythonWorkers.artifacts(), Option.empty()));
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    try {
      commit(messages, false);
    } catch (Exception e) {
      if (!PravegaException.is(e, "PRAVEGA_SERVICE_FAILED")) {
        throw e;
      }
      commit(messages, true); // by the service that is started in its place
    }
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    if (insert != null) {
      ObjectNode arguments = Service.JSON.createObjectNode();
      arguments.set("insert", insert);
      table.finish("abort_insert", arguments);
    }
  }

  /** Even in a thread that is interrupted: whoever cancels the statement must not be left with an unknown outcome. */
  private void commit(WriterCommitMessage[] messages, boolean again) {
    ObjectNode arguments = Service.JSON.createObjectNode().put("again", again);
    ArrayNode pickled = arguments.putArray("messages");
    for (WriterCommitMessage message : messages) {
      if (message instanceof PythonWriterCommitMessage python) {
        pickled.add(python.pickledMessage());
      }
    }
    arguments.set("insert", insert);
    table.finish("commit_insert", arguments);
  }
}
