package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.PlannedTasks;
import java.io.Serializable;
import java.util.*;
import org.apache.spark.TaskContext;
import org.apache.spark.api.python.PythonException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.Option;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A function that Python workers run: batches of rows go in, and batches come out. It is run as Spark's own Python
 * readers and writers run it, with two differences that matter for many rows. What comes out stays in columns, while
 * Spark would copy every row. And batches that go in are bounded by the sizes of their rows, while Spark would add up
 * the sizes of all vectors after every row, which takes longer than all else that it does to write it.
 */
record PythonTask(UserDefinedPythonDataSource source, byte[] function, String name, StructType input, StructType output,
    Option<String> artifacts) implements Serializable {
  /** So that large rows are encoded while the next ones are made, and neither side holds much of them. */
  private static final long MOST_BYTES = 4 << 20;

  /** A function that takes rows to write, and returns one message, with the numbers of TaskMetric.OF_WRITES. */
  static PythonTask ofWriter(byte[] function, String python, StructType rows) {
    StructType answer = UserDefinedPythonDataSource.writeOutputSchema();
    for (TaskMetric metric : TaskMetric.OF_WRITES) {
      answer = answer.add(metric.name(), DataTypes.LongType);
    }
    return new PythonTask(PythonWorkers.source(python, Map.of()), function, "write_to_data_source", rows, answer,
        PythonWorkers.artifacts());
  }

  /** A function that reads a partition, which is handed to it. */
  static PythonTask ofReader(PlannedTasks tasks, Map<String, String> environment) {
    return new PythonTask(PythonWorkers.source(tasks.python(), environment), tasks.function(), "read_from_data_source",
        UserDefinedPythonDataSource.readInputSchema(), tasks.output(), PythonWorkers.artifacts());
  }

  static scala.collection.immutable.Map<String, SQLMetric> metrics() {
    return PythonCustomMetric.pythonMetrics();
  }

  /** Starts the function. A batch that it returns, one struct in each, is valid until the next one is asked for. */
  Iterator<ColumnarBatch> run(
      int partition, Iterator<InternalRow> rows, scala.collection.immutable.Map<String, SQLMetric> metrics) {
    MapInBatchEvaluatorFactory settings = source.createMapInBatchEvaluatorFactory(
        function, name, input, output, metrics, artifacts, Option.empty());
    boolean atOnce = rows instanceof RowsAtOnce;
    ArrowPythonRunner runner =
        SparkLine.runner(settings, new StructType().add("struct", input), metrics, artifacts, atOnce);
    Batches batches = new Batches(rows, input, runner.maxRecordsPerBatch(), Math.min(runner.maxBytesPerBatch(), MOST_BYTES));
    return runner.compute(batches, partition, TaskContext.get());
  }

  /** Runs a function of `ofWriter` to its end; returns its message, and adds its numbers of OF_WRITES to these. */
  byte[] write(int partition, Iterator<InternalRow> rows, scala.collection.immutable.Map<String, SQLMetric> metrics,
      long[] numbers) {
    List<byte[]> messages = new ArrayList<>();
    try {
      Iterator<ColumnarBatch> answers = run(partition, rows, metrics);
      while (answers.hasNext()) {
        ArrowColumnVector struct = (ArrowColumnVector) answers.next().column(0);
        messages.add(struct.getChild(0).getBinary(0));
        Arrays.setAll(numbers, index -> numbers[index] + struct.getChild(1 + index).getLong(0));
      }
    } catch (PythonException e) {
      throw TaskErrors.unwrap(e);
    }
    if (messages.size() != 1) {
      throw new IllegalStateException("The function returned " + messages.size() + " messages");
    }
    return messages.get(0);
  }

  CustomTaskMetric[] values(scala.collection.immutable.Map<String, SQLMetric> metrics) {
    Map<String, Object> values = new HashMap<>();
    CollectionConverters.asJava(metrics).forEach((key, metric) -> values.put(key, metric.value()));
    return source.createPythonTaskMetrics(scala.collection.immutable.Map.from(CollectionConverters.asScala(values)));
  }

  /** Cuts rows into batches: each ends with the row that reaches the number of rows or of bytes. */
  private static final class Batches extends AbstractIterator<Iterator<InternalRow>> {
    private final Iterator<InternalRow> rows;
    private final int mostRows;
    private final long mostBytes;
    private final StructType schema;
    private final RowsAtOnce atOnce;
    private final Object[] struct = new Object[1];
    private final InternalRow wrapped = new GenericInternalRow(struct);
    private UnsafeProjection projection;

    Batches(Iterator<InternalRow> rows, StructType schema, int mostRows, long mostBytes) {
      this.rows = rows;
      this.atOnce = rows instanceof RowsAtOnce live ? live : null;
      this.mostRows = mostRows;
      this.mostBytes = mostBytes;
      this.schema = schema;
    }

    @Override
    public boolean hasNext() {
      return rows.hasNext();
    }

    @Override
    public Iterator<InternalRow> next() {
      return new AbstractIterator<>() {
        private int count;
        private long bytes;

        @Override
        public boolean hasNext() {
          return count < mostRows && bytes < mostBytes && (atOnce == null || atOnce.canGoOn(count)) && rows.hasNext();
        }

        @Override
        public InternalRow next() {
          InternalRow next = rows.next();
          UnsafeRow row = next instanceof UnsafeRow already ? already : unsafe(next);
          count++;
          bytes += row.getSizeInBytes();
          struct[0] = row;
          return wrapped;
        }
      };
    }

    private UnsafeRow unsafe(InternalRow row) {
      if (projection == null) {
        projection = UnsafeProjection.create(schema);
      }
      return projection.apply(row);
    }
  }
}
