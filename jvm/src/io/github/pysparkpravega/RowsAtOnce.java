package io.github.pysparkpravega;

import java.util.concurrent.*;
import java.util.concurrent.locks.LockSupport;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;
import scala.collection.AbstractIterator;

/**
 * Rows on their way to a Python worker, which gets them as soon as they come: a batch has those that are here, and an
 * empty batch tells the worker to make sure that it has stored the earlier ones. Spark looks whether the worker has
 * failed only when it has no more rows for it, so the rows are cut into turns of some seconds.
 */
final class RowsAtOnce extends AbstractIterator<InternalRow> {
  private static final int MOST_BYTES = 1 << 20; // of rows that wait, or one row that is larger
  private static final long IDLE_MILLIS = 100;
  private static final long TURN = TimeUnit.SECONDS.toNanos(10);
  private static final long PAUSE = TimeUnit.MILLISECONDS.toNanos(4); // what comes meanwhile makes one batch
  private static final UnsafeRow END = new UnsafeRow(0);

  private final BlockingQueue<UnsafeRow> waiting = new LinkedBlockingQueue<>();
  private final Semaphore room = new Semaphore(MOST_BYTES);
  private final UnsafeProjection projection;
  private UnsafeRow next;
  private long ends;
  private long paused;

  RowsAtOnce(StructType schema) {
    projection = UnsafeProjection.create(schema);
  }

  void add(InternalRow row) throws InterruptedException {
    UnsafeRow copy = (row instanceof UnsafeRow already ? already : projection.apply(row)).copy();
    room.acquire(size(copy));
    waiting.put(copy);
  }

  void end() throws InterruptedException {
    waiting.put(END);
  }

  /** Says whether a batch with so many rows gets one more now. The first one has waited for those that come with it. */
  boolean canGoOn(int rows) {
    if (rows > 0) {
      return !waiting.isEmpty();
    }
    if (next == null || next == END) {
      return false;
    }
    LockSupport.parkNanos(paused - System.nanoTime());
    paused = System.nanoTime() + PAUSE;
    return true;
  }

  /** Waits for the first row of a turn; says whether there is one. */
  boolean begin() throws InterruptedException {
    if (next == null) {
      next = waiting.take();
    }
    ends = System.nanoTime() + TURN;
    return next != END;
  }

  /** Waits for a row, for the end of the turn, or until it is time for an empty batch. */
  @Override
  public boolean hasNext() {
    try {
      if (next == null && System.nanoTime() < ends) {
        next = waiting.poll(IDLE_MILLIS, TimeUnit.MILLISECONDS);
      }
      return next != END && (next != null || System.nanoTime() < ends);
    } catch (InterruptedException e) {
      throw new IllegalStateException("The task was interrupted while it waited for rows", e);
    }
  }

  @Override
  public InternalRow next() {
    UnsafeRow row = next;
    next = null;
    room.release(size(row));
    return row;
  }

  private static int size(UnsafeRow row) {
    return Math.min(row.getSizeInBytes(), MOST_BYTES);
  }
}
