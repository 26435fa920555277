package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.DriverStep;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/** The steps that a procedure has the driver take: files in any file system of Hadoop, and queries that run here. */
final class DriverSteps {
  private DriverSteps() {}

  /** Takes a step and returns the answer to it, an empty text if there is none or no such file. */
  static String take(DriverStep step) {
    SparkSession session = SparkSession.active();
    try {
      if (!step.kind().equals("claim")) {
        return take(step, new Path(step.subject()), session.sessionState().newHadoopConf());
      }
      if (session.sharedState().activeStreamingQueries().containsKey(UUID.fromString(step.subject()))) {
        throw new IOException("it is running. Stop the query first");
      }
      return "";
    } catch (IOException | RuntimeException e) {
      throw PravegaException.unchecked(new PravegaException("PRAVEGA_INVALID_OPTION", "42616", "The driver cannot "
          + step.kind() + " " + step.subject() + ": " + e.getMessage() + ". Nothing more was done.", e));
    }
  }

  private static String take(DriverStep step, Path path, Configuration conf) throws IOException {
    FileSystem files = path.getFileSystem(conf);
    switch (step.kind()) {
      case "list" -> {
        return !files.exists(path) ? "" : Arrays.stream(files.listStatus(path)).map(file -> file.getPath().getName())
            .sorted().collect(Collectors.joining("\n"));
      }
      case "read" -> {
        if (files.exists(path)) {
          try (InputStream in = files.open(path)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
          }
        }
      }
      case "write" -> { // whole, or not at all
        try (OutputStream out = CheckpointFileManager.create(path.getParent(), conf).createAtomic(path, false)) {
          out.write(step.text().getBytes(StandardCharsets.UTF_8));
        }
      }
      case "copy" -> {
        Path target = new Path(step.text());
        String before = files.getContentSummary(path).toString();
        FileUtil.copy(files, path, target.getFileSystem(conf), target, false, false, conf);
        if (!before.equals(files.getContentSummary(path).toString())) {
          throw new IOException("it has changed meanwhile, so its query is running. Stop the query first");
        }
      }
      case "move" -> {
        if (!files.rename(path, new Path(step.text()))) {
          throw new IOException("it cannot be renamed to " + step.text());
        }
      }
      default -> throw new IllegalArgumentException("this adapter has no such step");
    }
    return "";
  }
}
