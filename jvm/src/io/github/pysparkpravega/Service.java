package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The catalog service: one Python process per driver and interpreter, spoken to by JSON lines on its stdin and
 * stdout. It ends with the driver, because its stdin then closes. Calls carry ids and run concurrently.
 */
final class Service {
  static final ObjectMapper JSON = new ObjectMapper();
  private static final String FAILED = "PRAVEGA_SERVICE_FAILED";
  private static final String SYSTEM_ERROR = "58000";
  private static final Map<String, Service> RUNNING = new ConcurrentHashMap<>();

  private final String python;
  private final Process process;
  private final BufferedWriter requests;
  private final AtomicLong lastId = new AtomicLong();
  private final Map<Long, CompletableFuture<JsonNode>> pending = new ConcurrentHashMap<>();
  private volatile boolean answered = false;
  private volatile boolean ended = false;

  /** Sends one request and waits for its answer; a service that has died is started again first. */
  static JsonNode call(String python, String operation, ObjectNode conf, ObjectNode arguments) {
    Service service = RUNNING.compute(
        python, (key, running) -> running == null || running.ended ? new Service(key) : running);
    return service.send(operation, conf, arguments);
  }

  private Service(String python) {
    this.python = python;
    ProcessBuilder builder = new ProcessBuilder(python, "-m", "pyspark_pravega.catalog.service");
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
    requests = new BufferedWriter(new OutputStreamWriter(process.getOutputStream(), StandardCharsets.UTF_8));
    Thread reader = new Thread(this::readReplies, "pravega-catalog-service");
    reader.setDaemon(true);
    reader.start();
  }

  private JsonNode send(String operation, ObjectNode conf, ObjectNode arguments) {
    long id = lastId.incrementAndGet();
    ObjectNode request = JSON.createObjectNode().put("id", id).put("operation", operation);
    request.set("conf", conf);
    request.set("arguments", arguments);
    CompletableFuture<JsonNode> reply = new CompletableFuture<>();
    pending.put(id, reply);
    try {
      String line = JSON.writeValueAsString(request);
      synchronized (requests) {
        requests.write(line);
        requests.newLine();
        requests.flush();
      }
      if (ended) {
        failPending(); // it ended after its reader had failed those who were waiting then
      }
      return reply.join();
    } catch (IOException e) {
      throw PravegaException.unchecked(failure(operation));
    } catch (CompletionException e) {
      boolean ours = PravegaException.is(e.getCause(), FAILED);
      throw PravegaException.unchecked(ours ? failure(operation) : e.getCause());
    } finally {
      pending.remove(id);
    }
  }

  private PravegaException failure(String operation) {
    return new PravegaException(FAILED, SYSTEM_ERROR, answered
        ? "The catalog service (" + python + " -m pyspark_pravega.catalog.service) ended during '" + operation
            + "'; its own message is on the driver's standard error. It is started again by the next statement."
        : "The catalog service does not run with the Python interpreter '" + python + "'; its own message is on the"
            + " driver's standard error. That Python must have pyspark-pravega installed: name one that has with"
            + " PYSPARK_PYTHON or the catalog's 'python' conf.", null);
  }

  private void readReplies() {
    try (BufferedReader replies =
        new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
      for (String line = replies.readLine(); line != null; line = replies.readLine()) {
        JsonNode reply = JSON.readTree(line);
        answered = true;
        CompletableFuture<JsonNode> waiting = pending.get(reply.get("id").asLong());
        if (waiting == null) {
          continue;
        }
        JsonNode error = reply.get("error");
        if (error == null) {
          waiting.complete(reply.get("result"));
        } else {
          waiting.completeExceptionally(
              new PravegaException(error.get("condition").asText(), error.get("sql_state").asText(),
                  error.get("message").asText(), null));
        }
      }
    } catch (IOException e) {
      process.destroy();
    } finally {
      ended = true;
      failPending();
    }
  }

  private void failPending() {
    pending.values().forEach(waiting -> waiting.completeExceptionally(failure("this statement")));
  }
}
