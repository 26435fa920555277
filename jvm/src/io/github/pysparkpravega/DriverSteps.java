package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.DriverStep;
import io.github.pysparkpravega.Requests.TasksDone;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/** The steps that a procedure has the driver take: files in any file system of Hadoop, and queries that run here. */
final class DriverSteps {
  /** Takes steps until one fails, and returns the answers: an empty text to one without, or if there is no such file. */
  static TasksDone take(String pending, List<DriverStep> steps) {
    List<String> answers = new ArrayList<>();
    for (DriverStep step : steps) {
      try {
        answers.add(take(step, new Path(step.subject()), SparkSession.active()));
      } catch (IOException | RuntimeException e) {
        return new TasksDone(pending, answers,
            "The driver cannot " + step.kind() + " " + step.subject() + ": " + e.getMessage() + ".");
      }
    }
    return new TasksDone(pending, answers, null);
  }

  private static String take(DriverStep step, Path path, SparkSession session) throws IOException {
    Configuration conf = session.sessionState().newHadoopConf();
    FileSystem files = path.getFileSystem(conf);
    switch (step.kind()) {
      case "claim" -> {
        if (session.sharedState().activeStreamingQueries().containsKey(UUID.fromString(step.subject()))) {
          throw new IOException("it is running. Stop the query first");
        }
      }
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
        String before = measure(files, path);
        FileSystem others = target.getFileSystem(conf);
        if (!FileUtil.copy(files, path, others, target, false, false, conf)
            || !before.equals(measure(files, path)) || !before.equals(measure(others, target))) {
          throw new IOException("it has changed meanwhile, or the copy " + target + " is not whole: it had " + before
              + ". If its query is running, stop that first");
        }
        return before;
      }
      case "move" -> {
        Path target = new Path(step.text());
        if (files.exists(target) || !files.rename(path, target)) { // HDFS would move it into an existing directory
          throw new IOException("it cannot be renamed to " + target + ", which must not exist");
        }
      }
      default -> throw new IllegalArgumentException("this adapter has no such step");
    }
    return "";
  }

  private static String measure(FileSystem files, Path path) throws IOException {
    var content = files.getContentSummary(path);
    return content.getFileCount() + " files of " + content.getLength() + " bytes";
  }
}
