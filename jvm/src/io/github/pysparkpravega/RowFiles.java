package io.github.pysparkpravega;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.SerializableConfiguration;

/**
 * The files of the rows that a stream of changes knows, under its checkpoint, in any file system. The service
 * names them, tasks of Python read and write copies of them. A file appears whole, and is never changed.
 */
final class RowFiles {
  private static final String LOCAL = "pyspark-pravega-row-states"; // as in states.py
  private static final List<String> SUFFIXES = List.of(".whole", ".part");
  private static final String KNOWN = ".known";
  /** As CheckpointFileManager names a file until it is whole. */
  private static final Pattern UNFINISHED =
      Pattern.compile("\\..*\\.(whole|part|known)\\.[0-9a-f-]{36}(\\.TID\\d+)?\\.tmp");

  private final Path folder;
  private final CheckpointFileManager files;

  RowFiles(String checkpoint, Configuration conf) {
    folder = new Path(checkpoint, "rows");
    files = CheckpointFileManager.create(folder, conf);
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

  private void fetch(String name) throws IOException {
    java.nio.file.Path copy = local(name);
    if (Files.exists(copy)) {
      return;
    }
    java.nio.file.Path unfinished = Files.createTempFile(Files.createDirectories(copy.getParent()), ".", null);
    try (InputStream in = files.open(new Path(folder, name))) {
      Files.copy(in, unfinished, StandardCopyOption.REPLACE_EXISTING);
      Files.move(unfinished, copy, StandardCopyOption.ATOMIC_MOVE);
    } finally {
      Files.deleteIfExists(unfinished);
    }
  }

  private void store(String state) throws IOException {
    for (String suffix : SUFFIXES) {
      String name = state + suffix;
      if (Files.exists(local(name))) {
        if (!files.exists(new Path(folder, name))) { // as another attempt may have left it
          write(name, out -> Files.copy(local(name), out));
        }
        return;
      }
    }
    throw new FileNotFoundException("The task did not write its state " + state);
  }

  /** Returns where Python looks: in the first of the executor's directories for temporary files. */
  private static java.nio.file.Path local(String name) {
    File directory = SparkEnv.get().blockManager().diskBlockManager().localDirs()[0];
    return directory.toPath().resolve(LOCAL).resolve(name);
  }

  /**
   * A partition of Python with the files that its task needs, and the beginning of the name of the one that it writes.
   */
  record Partition(InputPartition python, String[] homes, String[] before, String after) implements InputPartition {
    @Override
    public String[] preferredLocations() {
      return homes;
    }
  }

  /** Reads such partitions: fetches the files first, and stores the new one when all rows have been read. */
  record Readers(ColumnarReaders python, String checkpoint, SerializableConfiguration conf)
      implements ColumnarReaders {
    @Override
    public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
      if (!(partition instanceof Partition mine)) {
        return python.createColumnarReader(partition);
      }
      RowFiles files = new RowFiles(checkpoint, conf.value());
      try {
        for (String name : mine.before()) {
          files.fetch(name);
        }
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
      return new Reader(python.createColumnarReader(mine.python()), files, mine.after());
    }
  }

  private static final class Reader extends DelegatingReader {
    private final RowFiles files;
    private String after;

    Reader(PartitionReader<ColumnarBatch> python, RowFiles files, String after) {
      super(python);
      this.files = files;
      this.after = after;
    }

    @Override
    public boolean next() throws IOException {
      if (super.next()) {
        return true;
      }
      if (after != null) {
        files.store(after);
        after = null;
      }
      return false;
    }
  }
}
