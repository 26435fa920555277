package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.*;
import io.github.pysparkpravega.Requests.*;
import java.util.*;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.datasources.v2.DataSourceRDD;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.CollectionAccumulator;
import org.apache.spark.util.SerializableConfiguration;
import scala.collection.immutable.Map$;

/** A scan as the service plans it: Spark's Python readers run its function over its partitions. */
final class PravegaScan implements Scan, Batch, SupportsReportStatistics, SupportsRuntimeV2Filtering {
  private static final int MOST_TERMS_OF_JOINS = 20_000;

  private final PravegaTable table;
  private final StructType columns;
  private final Map<String, String> options;
  private final int limit;
  private final Aggregation aggregation;
  private final List<Condition> conditions;
  private final boolean joined;
  private final Object identity = new Object();
  private StructType every;
  private List<Condition> ofJoins = List.of();
  private List<String> found;
  private List<String> files;
  private RowFiles rowFiles;
  private PlannedRead plan;
  private MicroBatchStream stream;

  /**
   * Makes a scan; the parameters are the fields of PlanScan.
   *
   * @param joined whether joins may tell which keys they need.
   */
  PravegaScan(PravegaTable table, StructType columns, Map<String, String> options, int limit, Aggregation aggregation,
      StructType every, List<Condition> conditions, boolean joined) {
    this.table = table;
    this.columns = columns;
    this.options = options;
    this.limit = limit;
    this.aggregation = aggregation;
    this.every = every;
    this.conditions = conditions;
    this.joined = joined;
  }

  private PlannedRead plan(List<String> searched) {
    found = searched;
    int cores = SparkSession.active().leafNodeDefaultParallelism();
    PlannedRead planned = table.planScan(ends -> new PlanScan(table.handle(), columns, options, limit, ends, cores,
        found, aggregation, every, conditions, ofJoins, files));
    ScansOfThread.note(table, identity, planned.ends());
    return planned;
  }

  /** Plans the scan when Spark first asks for its columns, without its tasks if these take long to plan. */
  private synchronized PlannedRead plan() {
    if (plan == null) {
      plan = plan(found);
    }
    return plan;
  }

  /** Returns the number of rows if nothing else is asked for and nothing has to be read to find it. */
  OptionalLong known() {
    Long known = plan().known();
    return known == null ? OptionalLong.empty() : OptionalLong.of(known);
  }

  private synchronized PlannedTasks tasks() {
    list(plan());
    plan = complete(plan, this::plan);
    if (rowFiles != null) {
      plan.rows().obsolete().forEach(rowFiles::forget);
      rowFiles = null;
    }
    return plan.tasks();
  }

  /** Lists the files of remembered rows if the scan was planned without them, because its tasks need some. */
  private void list(PlannedRead planned) {
    if (planned.tasks() == null && planned.rows() != null) {
      try {
        rowFiles = new RowFiles(planned.rows().folder(), conf()).withFolder();
        files = rowFiles.names();
        found = List.of(); // the next plan is for tasks
      } catch (Exception e) { // Scala's methods throw any
        throw PravegaException.unchecked(RowFiles.unusable(planned.rows().folder(), e));
      }
    }
  }

  static Configuration conf() {
    return SparkSession.active().sessionState().newHadoopConf();
  }

  /**
   * Completes a plan for a scan that is run; EXPLAIN needs less. Tasks search for what the planning must know before.
   */
  static PlannedRead complete(PlannedRead plan, Function<List<String>, PlannedRead> again) {
    PlannedRead complete = plan;
    while (complete.tasks() == null) {
      complete = again.apply(search(complete.search()));
    }
    return complete;
  }

  /** Runs tasks whose rows are texts. */
  static List<String> search(@OrNull PlannedTasks tasks) {
    return tasks == null ? List.of() : new DataSourceRDD(
        SparkContext.getOrCreate(), SparkLine.partitions(partitions(tasks)), readerFactory(tasks, null), false,
        Map$.MODULE$.empty()).toJavaRDD().map(row -> row.getString(0)).collect();
  }

  @Override
  public StructType readSchema() {
    return stream != null ? columns : plan().schema();
  }

  @Override
  public String description() {
    return stream != null ? "stream of " + table.name() : plan().description();
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    boolean realTime = stream instanceof PravegaTableStream tableStream && tableStream.isRealTime();
    boolean columns = stream != null ? !realTime : plan().columnar();
    return columns ? ColumnarSupportMode.SUPPORTED : ColumnarSupportMode.UNSUPPORTED;
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return TaskMetric.withPython(TaskMetric.OF_SCANS);
  }

  /** Returns the key columns: by their values on the other side of a join, rows are left out before they are read. */
  @Override
  public NamedReference[] filterAttributes() {
    if (stream != null || !joined || aggregation != null
        || !table.takesUpdates() && (!table.hasChangesByKey() || plan().rows() == null)) {
      return new NamedReference[0];
    }
    List<String> names = Arrays.asList(columns.fieldNames());
    return Arrays.stream(table.rowKey()).filter(key -> names.contains(key.fieldNames()[0]))
        .toArray(NamedReference[]::new);
  }

  /** Lets the scan be planned again, with what Spark has found out about keys since it planned the query. */
  @Override
  public synchronized void filter(Predicate[] found) {
    list(plan());
    every = CatalogV2Util.v2ColumnsToStructType(table.columns());
    ofJoins = Pushdown.describe(found, MOST_TERMS_OF_JOINS);
    plan = null;
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    if (!conditions.isEmpty()) {
      throw new IllegalStateException("A stream evaluates no conditions, and Spark should not push any");
    }
    stream = table.isOfChanges()
        ? new PravegaChangesStream(table, columns, options, checkpointLocation)
        : new PravegaTableStream(table, columns, options, checkpointLocation);
    return stream;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    InputPartition[] partitions = partitions(tasks());
    // Without events there is one partition, which reads nothing and has no files.
    List<List<TaskFiles>> tasks = plan.rows() == null ? List.of() : plan.rows().tasks();
    for (int index = 0; index < tasks.size(); index++) {
      partitions[index] = new RowFiles.Partition(partitions[index], new String[0], tasks.get(index));
    }
    return partitions;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    ColumnarReaders readers = readerFactory(tasks(), new TaskNotes(table));
    if (plan.rows() != null) {
      readers = new RowFiles.Readers(readers, plan.rows().folder(), false, new SerializableConfiguration(conf()));
    }
    return limit < 0 ? readers : new DrainingReaderFactory(readers);
  }

  static InputPartition[] partitions(PlannedTasks tasks) {
    InputPartition[] partitions = new InputPartition[tasks.partitions().size()];
    Arrays.setAll(partitions, index -> new PythonInputPartition(index, tasks.partitions().get(index)));
    return partitions;
  }

  static ColumnarReaders readerFactory(PlannedTasks tasks, @OrNull CollectionAccumulator<Long> notes) {
    return new PythonReaders(PythonTask.ofReader(tasks, Map.of()), tasks.schema().length(), notes);
  }

  static PartitionReaderFactory realTimeReaderFactory(PlannedTasks tasks) {
    // Makes workers send each batch of rows at once, and not when a buffer is full.
    PythonTask task = PythonTask.ofReader(tasks, Map.of("SPARK_PIPELINED_UDF", "1"));
    return new RealTimeReaderFactory(new PythonReaders(task, tasks.output().length(), null), tasks.schema());
  }

  @Override
  public Statistics estimateStatistics() {
    return new Statistics() {
      @Override
      public OptionalLong sizeInBytes() {
        return stream != null ? OptionalLong.empty() : OptionalLong.of(plan().bytes());
      }

      @Override
      public OptionalLong numRows() {
        return OptionalLong.empty();
      }
    };
  }
}
