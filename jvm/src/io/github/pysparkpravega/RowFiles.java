package io.github.pysparkpravega;

import static java.nio.file.StandardOpenOption.WRITE;

import io.github.pysparkpravega.Replies.Lookup;
import io.github.pysparkpravega.Replies.TaskFiles;
import java.io.*;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.*;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.SerializableConfiguration;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The files of the rows that a stream of changes knows, under its checkpoint, or that scans remember, in any file system.
 * The service names them, tasks of Python read and write copies of them. A file appears whole, and is never changed.
 */
final class RowFiles {
  private static final Logger LOG = LoggerFactory.getLogger(RowFiles.class);
  private static final String LOCAL = "pyspark-pravega-row-states"; // as in states.py
  private static final List<String> SUFFIXES = List.of(".whole", ".part");
  private static final String KNOWN = ".known";
  /** The bytes of a piece in an index, as in key_blocks.py, and of what follows the index. */
  private static final int PIECE = 20;
  private static final int TAIL = 12;
  private static final String OWNER_ONLY = "rwx------";
  /** As CheckpointFileManager names a file until it is whole. */
  private static final Pattern UNFINISHED =
      Pattern.compile("\\..*\\.(whole|part|known)\\.[0-9a-f-]{36}(\\.TID\\d+)?\\.tmp");

  private final Path folder;
  private final CheckpointFileManager files;

  RowFiles(String folder, Configuration conf) {
    this.folder = new Path(folder);
    files = CheckpointFileManager.create(this.folder, conf);
  }

  static PravegaException unusable(String folder, Exception e) {
    Throwable cause = e; // Spark's error names no class that is missing
    while (cause.getCause() != null) {
      cause = cause.getCause();
    }
    return new PravegaException("PRAVEGA_INVALID_OPTION", "42616", "Rows cannot be remembered in " + folder
        + ". Correct 'current-rows.remembered-in', or leave it out. The file system says: " + cause, e);
  }

  /** Once for a query, on the driver. */
  RowFiles withFolder() {
    files.mkdirs(folder);
    return this;
  }

  /** Returns the complete files. One that a killed process has left unfinished is deleted when it is a day old. */
  List<String> names() {
    long dayAgo = System.currentTimeMillis() - Duration.ofDays(1).toMillis();
    List<String> names = new ArrayList<>();
    for (FileStatus file : files.list(folder)) {
      String name = file.getPath().getName();
      if (!UNFINISHED.matcher(name).matches()) {
        names.add(name);
      } else if (file.getModificationTime() < dayAgo) {
        delete(name);
      }
    }
    return names;
  }

  /** Returns what is known at a position, by the newest file about it; null if nothing is known. */
  String known(List<String> names, String position) {
    String end = "-" + hash(position) + KNOWN;
    return names.stream().filter(name -> name.endsWith(end)).max(String::compareTo).map(this::text).orElse(null);
  }

  private String text(String name) {
    try (InputStream in = files.open(new Path(folder, name))) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  void know(int batch, String position, String text) {
    write(String.format("%09d-%s", batch, hash(position)) + KNOWN, out -> out.write(text.getBytes(StandardCharsets.UTF_8)));
  }

  void delete(String name) {
    files.delete(new Path(folder, name));
  }

  /** Deletes a state that another session may delete too. */
  void forget(String name) {
    try {
      delete(name);
    } catch (Exception e) { // Scala's methods throw any
      LOG.warn("{} cannot be deleted", new Path(folder, name), e);
    }
  }

  private static UUID hash(String position) {
    return UUID.nameUUIDFromBytes(position.getBytes(StandardCharsets.UTF_8));
  }

  private interface Content {
    void to(CheckpointFileManager.CancellableFSDataOutputStream out) throws IOException;
  }

  private void write(String name, Content content) {
    try {
      CheckpointFileManager.CancellableFSDataOutputStream out = files.createAtomic(new Path(folder, name), true);
      try {
        content.to(out);
      } catch (IOException | RuntimeException e) {
        out.cancel();
        throw e;
      }
      out.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Fetches a file, or what a lookup needs of it. Another task may be reading a copy of the same name. */
  private void fetch(String name, @OrNull Lookup lookup) throws IOException {
    if (Files.exists(local(name))) {
      return;
    }
    java.nio.file.Path copy = local(lookup == null ? name : lookup.copy());
    Files.createDirectories(
        copy.getParent(), PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString(OWNER_ONLY)));
    java.nio.file.Path unfinished = Files.createTempFile(copy.getParent(), ".", null);
    try (FSDataInputStream in = files.open(new Path(folder, name))) {
      if (lookup == null) {
        Files.copy(in, unfinished, StandardCopyOption.REPLACE_EXISTING);
      } else {
        copy(in, files.list(new Path(folder, name))[0].getLen(), lookup, unfinished);
      }
      Files.move(unfinished, copy, StandardCopyOption.ATOMIC_MOVE);
    } finally {
      Files.deleteIfExists(unfinished);
    }
  }

  /** Copies the parts of a file that a lookup needs: its index, its head and some blocks, see key_blocks.py. */
  private static void copy(FSDataInputStream in, long end, Lookup lookup, java.nio.file.Path copy) throws IOException {
    try (FileChannel out = FileChannel.open(copy, WRITE)) {
      long pieces = copy(in, out, end - Long.BYTES, end).getLong();
      ByteBuffer index = copy(in, out, end - TAIL - pieces * PIECE, end - Long.BYTES);
      long begin = 0;
      for (int piece = 0; piece < pieces; piece++) {
        index.position(piece * PIECE);
        long next = index.getLong();
        int first = index.getInt();
        int last = index.getInt();
        if (piece == 0 || Arrays.stream(lookup.slots()).anyMatch(slot -> first <= slot && slot <= last)) {
          copy(in, out, begin, next);
        }
        begin = next;
      }
    }
  }

  private static ByteBuffer copy(FSDataInputStream in, FileChannel out, long begin, long end) throws IOException {
    byte[] bytes = new byte[Math.toIntExact(end - begin)];
    in.readFully(begin, bytes);
    out.write(ByteBuffer.wrap(bytes), begin);
    return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
  }

  private void store(String state) {
    for (String suffix : SUFFIXES) {
      String name = state + suffix;
      if (Files.exists(local(name))) {
        if (!files.exists(new Path(folder, name))) { // as another attempt may have left it
          write(name, out -> Files.copy(local(name), out));
        }
        return;
      }
    }
    throw new UncheckedIOException(new FileNotFoundException("The task did not write its state " + state));
  }

  /** Fetches the files of a task for one group, and returns what stores the new one. */
  private Runnable fetch(TaskFiles task, boolean needed) throws IOException {
    String after = task.after();
    Lookup lookup = task.lookup();
    List<String> before = List.of(task.before());
    for (String name : before) {
      if (needed) {
        fetch(name, null);
      } else {
        fetchIfThere(name, lookup);
      }
    }
    if (after == null) {
      return () -> {};
    }
    if (needed) {
      return () -> store(after);
    }
    String name = after + SUFFIXES.get(0);
    FileTime time = time(name);
    return () -> {
      if (lookup == null || !Files.exists(local(lookup.copy()))) { // else the task has read that
        storeIfNew(after, time, before.contains(name));
      }
    };
  }

  /** Fetches what a task can do without. */
  private void fetchIfThere(String name, @OrNull Lookup lookup) {
    try {
      fetch(name, lookup);
    } catch (IOException | RuntimeException e) {
      LOG.warn("All events are read, because the remembered rows in {} cannot be read", new Path(folder, name), e);
    }
  }

  /**
   * Stores a state that a task has written since its time was `before`; rows can be found without it.
   *
   * @param known whether the task was to read a file of this name.
   */
  private void storeIfNew(String state, @OrNull FileTime before, boolean known) {
    String name = state + SUFFIXES.get(0);
    try {
      if (Objects.equals(time(name), before)) {
        return;
      }
      if (known) {
        delete(name); // the task could not use it, and not every file system replaces a file
      }
      if (!files.exists(new Path(folder, name))) { // as another session may have left it
        write(name, out -> Files.copy(local(name), out));
      }
    } catch (IOException | RuntimeException e) {
      LOG.warn("The rows cannot be remembered in {}", new Path(folder, name), e);
    }
  }

  /** Deletes the copies that a task had for lookups; one that stays is removed when it is old, see states.py. */
  private static void drop(List<TaskFiles> tasks) {
    for (TaskFiles task : tasks) {
      if (task.lookup() != null) {
        local(task.lookup().copy()).toFile().delete();
      }
    }
  }

  private static @OrNull FileTime time(String name) throws IOException {
    java.nio.file.Path copy = local(name);
    return Files.exists(copy) ? Files.getLastModifiedTime(copy) : null;
  }

  /** Returns where Python looks: in the first of the executor's directories for temporary files. */
  private static java.nio.file.Path local(String name) {
    File directory = SparkEnv.get().blockManager().diskBlockManager().localDirs()[0];
    return directory.toPath().resolve(LOCAL).resolve(name);
  }

  /** A partition of Python with the files of its groups. */
  record Partition(InputPartition python, String[] homes, List<TaskFiles> tasks) implements InputPartition {
    @Override
    public String[] preferredLocations() {
      return homes;
    }
  }

  /**
   * Reads such partitions: fetches the files first, and stores the new one when all rows have been read.
   *
   * @param needed whether a task fails without them. Otherwise its rows are the same, and only take longer.
   */
  record Readers(ColumnarReaders python, String folder, boolean needed, SerializableConfiguration conf)
      implements ColumnarReaders {
    @Override
    public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
      if (!(partition instanceof Partition mine)) {
        return python.createColumnarReader(partition);
      }
      RowFiles files = new RowFiles(folder, conf.value());
      List<Runnable> stores = new ArrayList<>();
      try {
        for (TaskFiles task : mine.tasks()) {
          stores.add(files.fetch(task, needed));
        }
        return new Reader(python.createColumnarReader(mine.python()), stores, mine.tasks());
      } catch (IOException | RuntimeException e) {
        drop(mine.tasks());
        throw e instanceof RuntimeException unchecked ? unchecked : new UncheckedIOException((IOException) e);
      }
    }
  }

  private record Reader(PartitionReader<ColumnarBatch> python, List<Runnable> stores, List<TaskFiles> tasks)
      implements PartitionReader<ColumnarBatch> {
    @Override
    public boolean next() throws IOException {
      if (python.next()) {
        return true;
      }
      stores.forEach(Runnable::run);
      stores.clear();
      return false;
    }

    @Override
    public ColumnarBatch get() {
      return python.get();
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      return python.currentMetricsValues();
    }

    @Override
    public void close() throws IOException {
      python.close();
      drop(tasks);
    }
  }
}
