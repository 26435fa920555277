package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Collects what Spark needs of the table and has the service plan the scan: the read function and its partitions. */
final class PravegaScanBuilder
    implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownV2Filters, SupportsPushDownLimit,
        SupportsPushDownAggregates {
  private final PravegaTable table;
  private final CaseInsensitiveStringMap options;
  private final String operation;
  private final StructType every;
  private final ArrayNode conditions = Service.JSON.createArrayNode();
  private StructType required;
  private Predicate[] predicates = new Predicate[0];
  private int limit = -1;
  private boolean rowChanges;
  private ObjectNode written;
  private ObjectNode aggregation;
  private PravegaScan counted;

  PravegaScanBuilder(PravegaTable table, StructType schema, CaseInsensitiveStringMap options, String operation) {
    this.table = table;
    this.operation = operation;
    this.every = schema;
    this.required = schema;
    this.options = options;
  }

  /** Spark would read the table twice to find out which keys a statement changes, to no avail. */
  PravegaScanBuilder ofRowChanges() {
    rowChanges = true;
    return this;
  }

  @Override
  public void pruneColumns(StructType requiredSchema) {
    required = requiredSchema;
  }

  /** Spark evaluates those that the service does not take. */
  @Override
  public Predicate[] pushPredicates(Predicate[] asked) {
    ArrayNode spelled = PushedConditions.json(asked);
    ObjectNode arguments = arguments();
    arguments.set("conditions", spelled);
    List<Predicate> left = new ArrayList<>();
    List<Predicate> pushed = new ArrayList<>();
    JsonNode taken = table.call("take_conditions", arguments);
    for (int index = 0; index < asked.length; index++) {
      if (taken.get(index).asBoolean()) {
        pushed.add(asked[index]);
        conditions.add(spelled.get(index));
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
   * Spark asks first about the aggregation that is written in the query, then about one without AVG. The scan of a number
   * of rows is planned at once, because that number may be known then.
   */
  @Override
  public boolean supportCompletePushDown(Aggregation asked) {
    if (written == null) {
      written = PushedAggregation.json(asked);
    }
    if (counted == null && conditions.isEmpty() && PushedAggregation.countsRows(asked) && takes(asked)) {
      ObjectNode arguments = arguments().put("limit", -1);
      arguments.set("aggregation", PushedAggregation.json(asked));
      counted = new PravegaScan(table, operation, arguments, !rowChanges);
    }
    return counted != null && counted.known().isPresent();
  }

  @Override
  public boolean pushAggregation(Aggregation asked) {
    if (counted != null || takes(asked)) {
      aggregation = PushedAggregation.json(asked);
    }
    return aggregation != null;
  }

  private boolean takes(Aggregation asked) {
    ObjectNode arguments = arguments();
    arguments.set("aggregation", PushedAggregation.json(asked));
    arguments.set("written", written);
    return table.call("take_aggregation", arguments).asBoolean();
  }

  private ObjectNode arguments() {
    ObjectNode arguments = Service.JSON.createObjectNode().put("columns", required.json());
    arguments.set("options", Service.pairs(options.asCaseSensitiveMap()));
    return arguments;
  }

  @Override
  public Scan build() {
    if (aggregation != null && counted != null) {
      return counted.known().isPresent() ? new KnownCount(counted) : counted;
    }
    ObjectNode arguments = arguments().put("limit", limit);
    if (!conditions.isEmpty()) {
      arguments.put("every", every.json()).set("conditions", conditions);
    }
    if (aggregation != null) {
      arguments.set("aggregation", aggregation);
    }
    return new PravegaScan(table, operation, arguments, !rowChanges);
  }
}
