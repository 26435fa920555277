package io.github.pysparkpravega;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
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
 * The catalog service: one Python process per driver and interpreter, spoken to by lines on its stdin and stdout, each
 * a call's number and JSON. It ends with the driver, because its stdin then closes. Calls run concurrently.
 */
final class Service {
  /** ASCII, since Java's strings may be no Unicode; replies are Python's own, and as long as what they tell. */
  static final ObjectMapper JSON = new ObjectMapper(JsonFactory.builder()
      .enable(JsonWriteFeature.ESCAPE_NON_ASCII)
      .streamReadConstraints(StreamReadConstraints.builder().maxStringLength(Integer.MAX_VALUE).build())
      .build());

  private static final String FAILED = "PRAVEGA_SERVICE_FAILED";
  private static final String SYSTEM_ERROR = "58000";
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
  private final ExecutorService requests = Executors.newSingleThreadExecutor(task -> daemon(task, "requests"));
  private final AtomicLong lastId = new AtomicLong();
  private final Map<Long, CompletableFuture<String>> pending = new ConcurrentHashMap<>();
  private volatile boolean answered = false;
  private volatile boolean ended = false;
  private volatile int exitCode;

  /** Sends one request and waits for its answer, or for an interrupt, which takes the request back. */
  static JsonNode call(String python, String operation, ArrayNode conf, ObjectNode arguments) {
    return running(python).send(operation, conf, arguments, true);
  }

  /** As call, for what may be done twice: asked for again if the service ends before its answer. */
  static JsonNode repeat(String python, String operation, ArrayNode conf, ObjectNode arguments) {
    try {
      return call(python, operation, conf, arguments);
    } catch (Exception e) {
      if (!PravegaException.is(e, FAILED)) {
        throw e;
      }
      return call(python, operation, conf, arguments);
    }
  }

  /** As call, for what must come to its end: an interrupt is kept for later. */
  static JsonNode finish(String python, String operation, ArrayNode conf, ObjectNode arguments) {
    return running(python).send(operation, conf, arguments, false);
  }

  /** A service that has died is started again. */
  private static Service running(String python) {
    return RUNNING.compute(
        python, (key, running) -> running == null || running.ended ? new Service(key) : running);
  }

  private Service(String python) {
    this.python = python;
    // With -P, modules in the driver's working directory are none of the service's.
    ProcessBuilder builder = new ProcessBuilder(python, "-P", "-m", "pyspark_pravega.catalog.service");
    builder.redirectError(ProcessBuilder.Redirect.INHERIT);
    PythonWorkers.addPackages(builder.environment());
    builder.environment().putIfAbsent("GRPC_VERBOSITY", "ERROR"); // read when Python loads gRPC; it logs refused handshakes
    try {
      process = builder.start();
    } catch (IOException e) {
      throw PravegaException.unchecked(new PravegaException(FAILED, SYSTEM_ERROR, "Cannot start the catalog service with the Python interpreter '" + python
          + "': " + e.getMessage() + ". Set PYSPARK_PYTHON or the catalog's 'python' conf to a Python that has"
          + " pyspark-pravega installed.", e));
    }
    daemon(this::readReplies, "replies").start();
  }

  private static Thread daemon(Runnable task, String name) {
    Thread thread = new Thread(task, "pravega-catalog-service-" + name);
    thread.setDaemon(true);
    return thread;
  }

  private JsonNode send(String operation, ArrayNode conf, ObjectNode arguments, boolean interruptible) {
    long id = lastId.incrementAndGet();
    ObjectNode request = JSON.createObjectNode().put("operation", operation);
    request.set("conf", conf);
    request.set("arguments", arguments);
    CompletableFuture<String> reply = new CompletableFuture<>();
    pending.put(id, reply);
    boolean interrupted = false;
    try {
      write(id, request);
      if (interruptible) {
        CANCELLABLE.add(reply);
      }
      while (true) {
        try {
          return result(operation, reply.get());
        } catch (InterruptedException e) {
          if (interruptible) {
            write(id, null);
            throw e;
          }
          interrupted = true;
        }
      }
    } catch (CancellationException e) {
      write(id, null);
      throw PravegaException.unchecked(
          new PravegaException("PRAVEGA_CANCELLED", "HY008", "The statement was cancelled.", null));
    } catch (ExecutionException e) {
      throw PravegaException.unchecked(failure(operation));
    } catch (InterruptedException e) {
      throw PravegaException.unchecked(e);
    } finally {
      pending.remove(id);
      CANCELLABLE.remove(reply);
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** Written by one thread, so that no caller waits for the pipe. Null takes the call back. */
  private void write(long id, ObjectNode request) {
    try {
      byte[] line = (id + " " + JSON.writeValueAsString(request) + "\n").getBytes(StandardCharsets.US_ASCII);
      requests.execute(() -> {
        try {
          process.getOutputStream().write(line);
          process.getOutputStream().flush();
        } catch (IOException e) {
          end(); // it reads no more; those who wait are told when its output ends
        }
      });
    } catch (RejectedExecutionException e) {
      failPending();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Read by the thread that waits for it: a reply that is none fails its own call. */
  private static JsonNode result(String operation, String line) {
    JsonNode reply;
    try {
      reply = JSON.readTree(line);
    } catch (IOException e) {
      throw PravegaException.unchecked(new PravegaException("PRAVEGA_INTERNAL_ERROR", "XX000",
          "The catalog service's reply to '" + operation + "' cannot be read: " + e.getMessage(), e));
    }
    JsonNode error = reply.get("error");
    if (error != null) {
      throw PravegaException.unchecked(
          new PravegaException(error.get("condition").asText(), error.get("sql_state").asText(),
              error.get("message").asText(), null));
    }
    return reply.get("result");
  }

  private PravegaException failure(String operation) {
    String how = exitCode > 128 ? "was killed by signal " + (exitCode - 128) : "ended with exit code " + exitCode;
    boolean begun = answered || exitCode < 1 || exitCode > 2; // 1: no such module, 2: no such option
    return new PravegaException(FAILED, SYSTEM_ERROR, begun
        ? "The catalog service (" + python + " -m pyspark_pravega.catalog.service) " + how + " during '" + operation
            + "'; its own message is on the driver's standard error. It is started again by the next statement."
            + " If this one changes anything, look whether it has done so before you run it again."
        : "The catalog service does not run with the Python interpreter '" + python + "' (it " + how + "); its own"
            + " message is on the driver's standard error. That must be Python 3.11 or newer with pyspark-pravega"
            + " installed: name one that has with PYSPARK_PYTHON or the catalog's 'python' conf.", null);
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

  /** Waits for its end, which must be near; its exit code. */
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

  // Texts by texts are lists of pairs, because users' texts make no good keys: Jackson takes short ones only.

  static ArrayNode pairs(Map<String, String> texts) {
    ArrayNode pairs = JSON.createArrayNode();
    texts.forEach((key, value) -> pairs.addArray().add(key).add(value));
    return pairs;
  }

  static Map<String, String> texts(JsonNode pairs) {
    Map<String, String> texts = new HashMap<>();
    pairs.forEach(pair -> texts.put(pair.get(0).asText(), pair.get(1).asText()));
    return texts;
  }
}
