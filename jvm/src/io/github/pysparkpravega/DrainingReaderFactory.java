package io.github.pysparkpravega;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Readers of few rows, which are read to their end even if the task needs no more of them: Spark kills a Python worker
 * that was not read to its end, and the next query waits for another. A listener does it, because Spark closes a reader
 * only after it has killed the worker; listeners run last to first.
 */
record DrainingReaderFactory(ColumnarReaders python) implements ColumnarReaders {
  private static final Logger LOG = LoggerFactory.getLogger(DrainingReaderFactory.class);
  // More than this costs more than a new worker. Usually only the worker's end is left to read, which takes long on a busy
  // machine. Much more is left if a limit within the query is far higher than the one around it.
  private static final int MOST_ROWS = 10_000;
  private static final long MOST_NANOS = 2_000_000_000L;

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    PartitionReader<ColumnarBatch> reader = python.createColumnarReader(partition);
    TaskContext.get().addTaskCompletionListener(task -> {
      if (!task.isFailed() && !task.isInterrupted()) {
        drain(reader, task);
      }
    });
    return reader;
  }

  private static void drain(PartitionReader<ColumnarBatch> reader, TaskContext task) {
    long begin = System.nanoTime();
    try {
      int rows = 0;
      while (reader.next() && rows < MOST_ROWS && System.nanoTime() - begin < MOST_NANOS && !task.isInterrupted()) {
        rows += reader.get().numRows();
      }
    } catch (Exception e) {
      LOG.debug("A worker is not used again", e); // nobody needs these rows, and Spark kills the worker
    }
  }
}
