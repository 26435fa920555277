package io.github.pysparkpravega;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Readers of few rows, which are read to their end when the task needs no more of them: Spark kills a Python worker that
 * was not read to its end, and the next query waits for another. The listener is needed because Spark closes a reader
 * after it has killed the worker; of listeners, the last one runs first.
 */
record DrainingReaderFactory(PartitionReaderFactory python) implements PartitionReaderFactory {
  private static final Logger LOG = LoggerFactory.getLogger(DrainingReaderFactory.class);
  private static final int MOST_ROWS = 10_000; // what is worth less than a new worker

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    PartitionReader<InternalRow> reader = python.createReader(partition);
    TaskContext.get().addTaskCompletionListener(task -> {
      if (!task.isFailed() && !task.isInterrupted()) {
        drain(reader);
      }
    });
    return reader;
  }

  private static void drain(PartitionReader<InternalRow> reader) {
    try {
      for (int rows = 0; rows < MOST_ROWS && reader.next(); rows++) {
        reader.get();
      }
    } catch (Exception e) {
      LOG.debug("A worker is not used again", e); // nobody needs these rows; Spark kills the worker as ever
    }
  }
}
