package io.github.pysparkpravega;

import io.github.pysparkpravega.Requests.*;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.SparkEnv;

/**
 * The catalog service: a Python process of a driver and an interpreter. Calls and replies are lines on its stdin and
 * stdout, each with the number of the call and JSON. It ends with the driver, because its stdin then closes. Calls run
 * concurrently. Python runs one thread at a time, so that a driver with many cores starts more of them for SELECTs.
 */
final class Service {
  static final String FAILED = "PRAVEGA_SERVICE_FAILED";
  private static final String SYSTEM_ERROR = "58000";
  private static final String TAKEN_BACK = "null";
  private static final Map<Place, Service> RUNNING = new ConcurrentHashMap<>();
  /** What SELECTs ask for: nothing is kept for it, so that any service can answer. */
  private static final Set<Class<?>> ANYWHERE =
      Set.of(LoadTable.class, PlanScan.class, TakeAggregation.class, TakeConditions.class);
  /** How many calls on their way keep a service busy. */
  private static final int BUSY = 8;
  private static final int CORES = Runtime.getRuntime().availableProcessors();
  private static final Set<Runnable> CANCELLABLE = ConcurrentHashMap.newKeySet();

  static {
    try {
      ShellInterrupts.call(() -> CANCELLABLE.forEach(Runnable::run));
    } catch (LinkageError e) {
      // a Spark without Hive has no such shell
    }
  }

  /** The first service of an interpreter, number 0, has all that is open. */
  private record Place(String python, int number) {}

  private final String python;
  private final Process process;
  private final ExecutorService requests = Executors.newSingleThreadExecutor(task -> daemon("catalog-service-requests", task));
  private final AtomicLong lastId = new AtomicLong();
  private final Map<Long, CompletableFuture<String>> pending = new ConcurrentHashMap<>();
  private volatile boolean answered = false;
  private volatile boolean ended = false;
  private volatile int exitCode;

  /** Returns the service of an interpreter that a request goes to. Starts it, even again after it has died. */
  static Service running(String python, Request<?> request) {
    Service chosen = running(new Place(python, 0));
    int most = SparkEnv.get().conf().getInt("spark.pravega.services", Math.max(1, Math.min(CORES / 4, 4)));
    if (ANYWHERE.contains(request.getClass())) {
      for (int number = 1; number < most && chosen.pending.size() >= BUSY; number++) {
        Service other = running(new Place(python, number));
        chosen = other.pending.size() < chosen.pending.size() ? other : chosen;
      }
    }
    return chosen;
  }

  private static Service running(Place place) {
    return RUNNING.compute(
        place, (key, running) -> running == null || running.ended ? new Service(key.python) : running);
  }

  private Service(String python) {
    this.python = python;
    // With -P, the service does not import modules from the driver's working directory.
    ProcessBuilder builder = new ProcessBuilder(
        new ArrayList<>(List.of(python, "-P", "-m", "pyspark_pravega.catalog.service")));
    builder.redirectError(ProcessBuilder.Redirect.INHERIT);
    builder.environment().computeIfPresent("PYTHONPATH", (key, path) -> PythonWorkers.dropEmptyEntries(path));
    builder.environment().putIfAbsent("GRPC_VERBOSITY", "ERROR"); // read when Python loads gRPC; it logs refused handshakes
    try {
      builder.command().addAll(PythonWorkers.ofStart());
      process = builder.start();
    } catch (IOException e) {
      throw PravegaException.unchecked(new PravegaException(FAILED, SYSTEM_ERROR,
          "Cannot start the catalog service with the Python interpreter '" + python + "': " + e.getMessage()
              + ". Set PYSPARK_PYTHON or the catalog's 'python' conf to a Python that has pyspark-pravega installed.",
          e));
    }
    daemon("catalog-service-replies", this::readReplies).start();
  }

  /** Returns a thread of this adapter, for which a JVM does not wait at its end. */
  static Thread daemon(String name, Runnable task) {
    Thread thread = new Thread(task, "pravega-" + name);
    thread.setDaemon(true);
    return thread;
  }

  /**
   * Sends one request and waits for its reply. An interrupt takes the request back if it is `interruptible`; else it is
   * kept for later, and takes a commit back that waits for its turn: the reply says whether it did.
   */
  <R> R send(Map<String, String> conf, Request<R> request, boolean interruptible) {
    long id = lastId.incrementAndGet();
    CompletableFuture<String> reply = new CompletableFuture<>();
    pending.put(id, reply);
    boolean interrupted = false;
    boolean waits = request instanceof CommitInsert || request instanceof CommitChanges;
    Runnable cancel = interruptible ? () -> reply.cancel(false) : () -> write(id, TAKEN_BACK);
    try {
      write(id, Json.write(conf, request));
      if (interruptible || waits) {
        CANCELLABLE.add(cancel);
      }
      while (true) {
        try {
          return Json.read(request, reply.get());
        } catch (InterruptedException e) {
          if (interruptible) {
            write(id, TAKEN_BACK);
            throw e;
          }
          interrupted = true;
          if (waits) {
            cancel.run();
          }
        }
      }
    } catch (CancellationException e) {
      write(id, TAKEN_BACK);
      throw PravegaException.unchecked(
          new PravegaException("PRAVEGA_CANCELLED", "HY008", "The statement was cancelled.", null));
    } catch (ExecutionException e) {
      throw PravegaException.unchecked(failure(request.operation()));
    } catch (InterruptedException e) {
      throw PravegaException.unchecked(e);
    } finally {
      pending.remove(id);
      CANCELLABLE.remove(cancel);
      FreshLoads.noteAnswer(request);
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** One thread writes, so that no caller waits for the pipe. */
  private void write(long id, String call) {
    byte[] line = (id + " " + call + "\n").getBytes(StandardCharsets.US_ASCII);
    try {
      requests.execute(() -> {
        try {
          process.getOutputStream().write(line);
          process.getOutputStream().flush();
        } catch (IOException e) {
          end(); // it reads no more; waiting callers learn of it when its output ends
        }
      });
    } catch (RejectedExecutionException e) {
      failPending();
    }
  }

  private PravegaException failure(String operation) {
    String how = exitCode > 128 ? "was killed by signal " + (exitCode - 128) : "ended with exit code " + exitCode;
    boolean begun = answered || exitCode < 1 || exitCode > 2; // 1: no such module, 2: no such option
    return new PravegaException(FAILED, SYSTEM_ERROR, begun
        ? "The catalog service (" + python + " -m pyspark_pravega.catalog.service) " + how + " during '" + operation
            + "'; its own message is on the driver's standard error. The next statement starts it again. If this one"
            + " changes anything, check whether it has done so before you run it again."
        : "The catalog service does not run with the Python interpreter '" + python + "' (it " + how + "); its own"
            + " message is on the driver's standard error. The service needs Python 3.11 or newer with pyspark-pravega"
            + " installed: set PYSPARK_PYTHON or the catalog's 'python' conf to such an interpreter.", null);
  }

  private void readReplies() {
    try (BufferedReader replies =
        new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
      for (String line = replies.readLine(); line != null; line = replies.readLine()) {
        int space = line.indexOf(' ');
        CompletableFuture<String> waiting = pending.get(Long.parseLong(line.substring(0, space)));
        answered = true;
        if (waiting != null) {
          waiting.complete(line.substring(space + 1));
        }
      }
    } catch (IOException | RuntimeException e) {
      process.destroyForcibly();
    } finally {
      exitCode = end();
      ended = true;
      requests.shutdown();
      failPending();
    }
  }

  /** Waits for the end of the process, which must be near; returns the exit code. */
  private int end() {
    try {
      if (!process.waitFor(10, TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
      return process.waitFor();
    } catch (InterruptedException e) {
      return 0; // nobody interrupts these threads
    }
  }

  private void failPending() {
    pending.values().forEach(waiting -> waiting.completeExceptionally(new IOException("the service has ended")));
  }
}
