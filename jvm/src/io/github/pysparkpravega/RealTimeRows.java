package io.github.pysparkpravega;

import java.util.Iterator;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskOutputFileAlreadyExistException;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * Hands over rows in real-time mode. The task waits for its next row, perhaps for minutes, so another thread gives the
 * rows that have come to the Python worker.
 */
final class RealTimeRows {
  /** Conditions of servers that do not answer for a while: Spark may repeat such a task. */
  static final Set<String> AWAY = Set.of("PRAVEGA_SERVER_UNAVAILABLE", "PRAVEGA_SERVER_FAILED", "PRAVEGA_TIMEOUT");

  static void send(Iterator<InternalRow> rows, PythonWriters.Writer writer) {
    RowsAtOnce ready = new RowsAtOnce(writer.task.input());
    AtomicReference<Throwable> failure = new AtomicReference<>();
    Thread reading = Thread.currentThread();
    TaskContext context = TaskContext.get();
    Thread sending = new Thread(() -> {
      TaskContext$.MODULE$.setTaskContext(context);
      try {
        while (ready.begin()) {
          writer.send(ready);
        }
      } catch (Throwable e) {
        // Spark repeats no task after this error. A repeated one may find its time over, and succeed without the row.
        boolean isRefused = e instanceof PravegaException known && !AWAY.contains(known.getCondition());
        Throwable cause = isRefused ? new TaskOutputFileAlreadyExistException(e) : e;
        if (failure.compareAndSet(null, cause)) {
          reading.interrupt(); // it may wait for a row that nobody would write
        }
      }
    }, "real-time rows of partition " + context.partitionId());
    sending.start();
    try {
      while (rows.hasNext()) {
        ready.add(rows.next());
      }
      ready.end();
      sending.join();
    } catch (Throwable e) {
      failure.compareAndSet(null, e);
      end(sending);
    }
    if (failure.get() != null) {
      throw PravegaException.unchecked(failure.get());
    }
  }

  /** Ends the other thread: Spark takes the memory of batches when the task ends, and then ends a worker that hangs. */
  private static void end(Thread sending) {
    for (int tries = 0; sending.isAlive() && tries < 50; tries++) {
      sending.interrupt();
      try {
        sending.join(100);
      } catch (InterruptedException e) {
        continue; // the task ends already
      }
    }
  }
}
