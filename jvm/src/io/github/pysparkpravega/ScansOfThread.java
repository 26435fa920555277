package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;

/**
 * Remembers which scans a thread has planned, so that a statement that changes rows knows all that it has read of its
 * table: a subquery may read it too, and Spark then loads it once more.
 */
final class ScansOfThread {
  private static final int KEPT = 1024;
  private static final ThreadLocal<Deque<Noted>> SCANS = ThreadLocal.withInitial(ArrayDeque::new);

  private record Noted(String stream, Object scan, long nanos, JsonNode ends) {}

  /** Notes a scan, which may be planned more than once; `scan` is an object that only this scan has. */
  static void note(PravegaTable table, Object scan, JsonNode ends) {
    Deque<Noted> scans = SCANS.get();
    scans.removeIf(noted -> noted.scan == scan);
    scans.addLast(new Noted(identify(table), scan, System.nanoTime(), ends));
    if (scans.size() > KEPT) {
      scans.removeFirst();
    }
  }

  /** Returns where the scans ended that this thread has planned of the table's stream since it loaded the table. */
  static List<JsonNode> ends(PravegaTable table) {
    String stream = identify(table);
    return SCANS.get().stream()
        .filter(noted -> noted.nanos - table.loadedAt() > 0 && noted.ends != null && noted.stream.equals(stream))
        .map(Noted::ends).toList();
  }

  /** Returns the stream's cluster and name, which are the same in each catalog. */
  private static String identify(PravegaTable table) {
    return table.lineage().toString();
  }
}
