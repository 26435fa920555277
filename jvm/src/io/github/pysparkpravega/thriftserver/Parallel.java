package io.github.pysparkpravega.thriftserver;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hive.service.cli.HiveSQLException;

/** Loads several tables at once, because a tool may ask for the columns of all. */
final class Parallel {
  private static final int AT_ONCE = 8;

  private Parallel() {}

  /** Returns the results in the order of the work. The threads are new, so that they inherit the active session. */
  static <T> List<T> results(List<Callable<T>> work) throws HiveSQLException {
    ExecutorService threads = Executors.newFixedThreadPool(AT_ONCE);
    try {
      List<T> results = new ArrayList<>();
      for (Future<T> result : threads.invokeAll(work)) {
        results.add(result.get());
      }
      return results;
    } catch (ExecutionException e) {
      throw e.getCause() instanceof HiveSQLException known ? known : new HiveSQLException(e.getCause());
    } catch (InterruptedException e) {
      throw new HiveSQLException("interrupted", e);
    } finally {
      threads.shutdownNow();
    }
  }
}
