package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.QueryStart;
import io.github.pysparkpravega.Requests.*;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryException;
import org.apache.spark.sql.streaming.StreamingQueryProgress;
import org.apache.spark.sql.streaming.Trigger;

/** One run of a streaming query that the service wants: the rows of an INSERT, written by micro-batches. */
final class RunningQuery {
  private static final String REFUSED = "refused";
  private static final String ENDED = "ended";
  private static final String OVER = "over";
  private static final long GRACE_MS = 60_000; // for the micro-batch that runs when it is stopped
  private static final long LOOK_MS = 10;

  private final PravegaService service;
  private final QueryStart wanted;
  private volatile StreamingQuery query;
  private volatile String refused;
  private volatile boolean stopping;
  private volatile boolean stopped;
  private volatile boolean atOnce;
  private volatile boolean over;
  private volatile boolean bounded;

  RunningQuery(PravegaService service, QueryStart wanted) {
    this.service = service;
    this.wanted = wanted;
    this.bounded = wanted.availableNow();
  }

  /** Starts it, in a session that nothing else uses. */
  void start(Supplier<SparkSession> ofItsOwn) {
    try {
      SparkSession session = ofItsOwn.get();
      query = within(session, () -> begin(session));
    } catch (Throwable e) {
      refused = e.getMessage() == null ? e.toString() : e.getMessage();
    }
  }

  private StreamingQuery begin(SparkSession session) throws Exception {
    RunningQueries.select(session, wanted.catalog(), wanted.namespace());
    if (wanted.repeats()) {
      session.conf().unset("spark.sql.streaming.checkpointLocation");
      session.conf().set("spark.sql.streaming.forceDeleteTempCheckpointLocation", true);
      repeat(session); // a server that cannot do it leaves it to others, as a query that does not start
      return session.readStream().format("rate").load().writeStream().queryName(wanted.name())
          .trigger(Trigger.ProcessingTime(wanted.interval()))
          .foreachBatch((rows, number) -> { repeat(rows.sparkSession()); }).start();
    }
    StreamingInsert insert = StreamingInsert.analyze(session, "INSERT INTO " + wanted.into() + "\n" + wanted.query());
    if (insert == null) {
      throw new IllegalArgumentException("Spark does not take this query as an INSERT into a table of Pravega.");
    }
    bounded = bounded || haveEnds(Scripts.optionsOfStreams(insert.query()));
    Trigger trigger = bounded ? Trigger.AvailableNow() : Trigger.ProcessingTime(wanted.interval());
    return insert.start(wanted.name(), wanted.outputMode(), wanted.checkpoint(), trigger, wanted.options());
  }

  private void repeat(org.apache.spark.sql.SparkSession session) {
    session.sql(wanted.query(), Map.of("into", wanted.into()));
  }

  /** Ends lie in the past, so what there is now is all that the query will ever read. */
  private boolean haveEnds(List<Map<String, String>> reads) {
    return reads.stream().noneMatch(Map::isEmpty) && service.call(new HaveEnds(reads));
  }

  /** Runs a task with a session as the active one of this thread. */
  static <T> T within(SparkSession session, Callable<T> task) {
    return session.withActive(() -> {
      try {
        return task.call();
      } catch (Exception e) {
        throw PravegaException.unchecked(e);
      }
    });
  }

  /** Returns when it has ended, at once if it could not start. Its report says why. */
  void awaitEnd() {
    try {
      if (query != null) {
        query.awaitTermination();
      }
    } catch (StreamingQueryException e) {
      // the report has it
    }
  }

  QueryReport report() {
    StreamingQuery started = query;
    boolean active = started != null && started.isActive(); // before the rest, which may come in the meantime
    String error = refused;
    String progress = null;
    if (started != null) {
      error = started.exception().isEmpty() ? null : messageOf(started.exception().get());
      StreamingQueryProgress last = started.lastProgress();
      progress = last == null ? null : last.json();
    }
    String state = active ? "active" : started != null ? ENDED : error != null ? REFUSED : "starting";
    return new QueryReport(wanted.scope(), wanted.name(), wanted.epoch(), over ? OVER : state, active ? null : error,
        progress, bounded, stopped);
  }

  /** Notes that the service knows a report. After the last one it decides when this run is forgotten. */
  void noteTold(QueryReport report) {
    over = over || report.state().equals(ENDED) || report.state().equals(REFUSED);
  }

  boolean isOver() {
    return over;
  }

  private static String messageOf(Throwable failure) {
    Throwable cause = failure.getCause() == null ? failure : failure.getCause();
    return cause.getMessage() == null ? cause.toString() : cause.getMessage();
  }

  /**
   * Returns whether it is running and nobody else stops it; from then on the caller does.
   *
   * @param now whether not to wait for the micro-batch, which ends the wait of one who stops it already.
   */
  synchronized boolean beginsToStop(boolean now) {
    atOnce = atOnce || now;
    boolean begins = query != null && !stopping;
    stopping = stopping || begins;
    return begins;
  }

  /** Stops it, if not at once after the micro-batch that is running. */
  void stop() {
    long until = System.currentTimeMillis() + GRACE_MS;
    long batch = batch();
    while (!atOnce && query.isActive() && query.status().isTriggerActive() && batch() == batch
        && System.currentTimeMillis() < until) {
      RunningQueries.pause(LOOK_MS);
    }
    try {
      stopped = stopped || query.isActive(); // before it is, since the report may come first
      query.stop();
    } catch (TimeoutException e) {
      stopping = false; // the service asks again
    }
  }

  private long batch() {
    StreamingQueryProgress last = query.lastProgress();
    return last == null ? -1 : last.batchId();
  }
}
