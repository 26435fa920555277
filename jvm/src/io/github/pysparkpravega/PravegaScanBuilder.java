package io.github.pysparkpravega;

import io.github.pysparkpravega.Requests.*;
import java.util.*;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Collects what Spark needs from the table, so that the service can plan the scan: its function and its partitions. */
final class PravegaScanBuilder
    implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownV2Filters, SupportsPushDownLimit,
        SupportsPushDownAggregates {
  private final PravegaTable table;
  private final Map<String, String> options;
  private final StructType every;
  private final List<Condition> conditions = new ArrayList<>();
  private StructType required;
  private Predicate[] predicates = new Predicate[0];
  private int limit = -1;
  private boolean keyedWrite;
  private Requests.Aggregation written;
  private Requests.Aggregation aggregation;
  private PravegaScan counted;

  PravegaScanBuilder(PravegaTable table, StructType schema, CaseInsensitiveStringMap options) {
    this.table = table;
    this.every = schema;
    this.required = schema;
    this.options = options.asCaseSensitiveMap();
  }

  /**
   * Makes it a scan of changed rows, whose keys joins must not ask for: Spark would read the table twice for nothing.
   */
  PravegaScanBuilder ofKeyedWrite() {
    keyedWrite = true;
    return this;
  }

  @Override
  public void pruneColumns(StructType requiredSchema) {
    required = requiredSchema;
  }

  /** Returns the predicates that the service does not take, which Spark evaluates. */
  @Override
  public Predicate[] pushPredicates(Predicate[] asked) {
    List<Condition> described = Pushdown.describe(asked);
    List<Predicate> left = new ArrayList<>();
    List<Predicate> pushed = new ArrayList<>();
    boolean[] taken = table.service().call(new TakeConditions(table.handle(), required, options, described));
    for (int index = 0; index < asked.length; index++) {
      if (taken[index]) {
        pushed.add(asked[index]);
        conditions.add(described.get(index));
      } else {
        left.add(asked[index]);
      }
    }
    predicates = pushed.toArray(new Predicate[0]);
    return left.toArray(new Predicate[0]);
  }

  @Override
  public Predicate[] pushedPredicates() {
    return predicates;
  }

  /** Returns the conditions that the service takes. */
  List<Condition> conditions() {
    return List.copyOf(conditions);
  }

  @Override
  public boolean pushLimit(int limit) {
    this.limit = limit;
    return true;
  }

  @Override
  public boolean isPartiallyPushed() {
    return true;
  }

  /**
   * Spark asks first about the aggregation as the query has it, then about one without AVG. If only rows are counted,
   * the scan is planned at once, because that may already give their number.
   */
  @Override
  public boolean supportCompletePushDown(Aggregation asked) {
    if (written == null) {
      written = Pushdown.describe(asked);
    }
    if (counted == null && conditions.isEmpty() && Pushdown.countsRows(asked) && takes(asked)) {
      counted = scan(-1, Pushdown.describe(asked));
    }
    return counted != null && counted.known().isPresent();
  }

  @Override
  public boolean pushAggregation(Aggregation asked) {
    if (counted != null || takes(asked)) {
      aggregation = Pushdown.describe(asked);
    }
    return aggregation != null;
  }

  private boolean takes(Aggregation asked) {
    return table.service().call(new TakeAggregation(
        table.handle(), required, options, Pushdown.describe(asked), written));
  }

  @Override
  public Scan build() {
    if (aggregation != null && counted != null) {
      return counted.known().isPresent() ? new KnownCount(counted) : counted;
    }
    return scan(limit, aggregation);
  }

  private PravegaScan scan(int limit, Requests.Aggregation aggregation) {
    StructType evaluated = conditions.isEmpty() ? null : every;
    return new PravegaScan(
        table, required, options, limit, aggregation, evaluated, List.copyOf(conditions), !keyedWrite);
  }

  /** A row with the number of rows of a scan, as often as the query counts them. Spark starts no task for it. */
  private record KnownCount(PravegaScan scan) implements LocalScan {
    @Override
    public InternalRow[] rows() {
      Object[] values = Collections.nCopies(readSchema().length(), scan.known().getAsLong()).toArray();
      return new InternalRow[] {new GenericInternalRow(values)};
    }

    @Override
    public StructType readSchema() {
      return scan.readSchema();
    }

    @Override
    public String description() {
      return scan.description();
    }
  }
}
