package io.github.pysparkpravega;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The catalog service: one Python process per driver and interpreter. Calls and replies are lines on its stdin and
 * stdout, each with the number of the call and JSON. It ends with the driver, because its stdin then closes. Calls run
 * concurrently.
 */
final class Service {
  static final String FAILED = "PRAVEGA_SERVICE_FAILED";
  private static final String SYSTEM_ERROR = "58000";
  private static final String TAKEN_BACK = "null";
  private static final Map<String, Service> RUNNING = new ConcurrentHashMap<>();

  private static final Set<CompletableFuture<String>> CANCELLABLE = ConcurrentHashMap.newKeySet();

  static {
    try {
      ShellInterrupts.call(() -> CANCELLABLE.forEach(reply -> reply.cancel(false)));
    } catch (LinkageError e) {
      // a Spark without Hive has no such shell
    }
  }

  private final String python;
  private final Process process;
  private final ExecutorService requests = Executors.newSingleThreadExecutor(task -> daemon("catalog-service-requests", task));
  private final AtomicLong lastId = new AtomicLong();
  private final Map<Long, CompletableFuture<String>> pending = new ConcurrentHashMap<>();
  private volatile boolean answered = false;
  private volatile boolean ended = false;
  private volatile int exitCode;

  /** Returns the running service of an interpreter. Starts it, even again after it has died. */
  static Service running(String python) {
    return RUNNING.compute(
        python, (key, running) -> running == null || running.ended ? new Service(key) : running);
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
   * kept for later.
   */
  <R> R send(Map<String, String> conf, Request<R> request, boolean interruptible) {
    long id = lastId.incrementAndGet();
    CompletableFuture<String> reply = new CompletableFuture<>();
    pending.put(id, reply);
    boolean interrupted = false;
    try {
      write(id, Json.write(conf, request));
      if (interruptible) {
        CANCELLABLE.add(reply);
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
      CANCELLABLE.remove(reply);
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
