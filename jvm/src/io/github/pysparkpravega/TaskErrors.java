package io.github.pysparkpravega;

import java.io.IOException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.api.python.PythonException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/** The errors of tasks: those that Python raised, and not that a Python worker raised something. */
final class TaskErrors {
  /** How `user_errors.py` lets an error leave a worker. */
  private static final Pattern RAISED = Pattern.compile("\\[(PRAVEGA_\\w+)] (.*)\nSQLSTATE: (\\w{5})", Pattern.DOTALL);

  private TaskErrors() {}

  static RuntimeException raised(PythonException error) {
    Matcher raised = RAISED.matcher(error.getMessage());
    return PravegaException.unchecked(raised.find()
        ? new PravegaException(raised.group(1), raised.group(3), raised.group(2), null)
        : error);
  }

  record Reads(PartitionReaderFactory python) implements PartitionReaderFactory {
    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      try {
        return new Reader(python.createReader(partition));
      } catch (PythonException e) {
        throw raised(e);
      }
    }
  }

  private static final class Reader extends DelegatingReader {
    Reader(PartitionReader<InternalRow> python) {
      super(python);
    }

    @Override
    public boolean next() throws IOException {
      try {
        return super.next();
      } catch (PythonException e) {
        throw raised(e);
      }
    }
  }
}
