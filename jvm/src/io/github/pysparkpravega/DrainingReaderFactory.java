package io.github.pysparkpravega;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Readers of few rows, which are read to their end when the task needs no more of them: Spark kills a Python worker that
 * was not read to its end, and the next query waits for another. The listener is needed because Spark closes a reader
 * after it has killed the worker; of listeners, the last one runs first.
 */
record DrainingReaderFactory(ColumnarReaders python) implements ColumnarReaders {
  private static final Logger LOG = LoggerFactory.getLogger(DrainingReaderFactory.class);
  // What is worth less than a new worker; no batch is asked for after that time. Mostly the worker has only its end to tell, which takes long on a busy machine;
  // a limit within the query that is far higher than the one around it leaves much more.
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
      LOG.debug("A worker is not used again", e); // nobody needs these rows; Spark kills the worker as ever
    }
  }
}
