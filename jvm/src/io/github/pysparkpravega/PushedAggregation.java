package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;

/** Spells an aggregation that Spark asks a scan for. Whatever is no column has an empty name. */
final class PushedAggregation {
  private PushedAggregation() {}

  static ObjectNode json(Aggregation aggregation) {
    ObjectNode json = Service.JSON.createObjectNode();
    ArrayNode functions = json.putArray("functions");
    for (AggregateFunc function : aggregation.aggregateExpressions()) {
      ObjectNode each = functions.addObject().put("name", function.getClass().getSimpleName());
      name(each.putArray("column"), function.children());
    }
    ArrayNode groups = json.putArray("groups");
    for (Expression group : aggregation.groupByExpressions()) {
      name(groups.addArray(), group);
    }
    return json;
  }

  /** Whether the number of all rows is asked for, and nothing else. */
  static boolean countsRows(Aggregation aggregation) {
    return aggregation.groupByExpressions().length == 0
        && Arrays.stream(aggregation.aggregateExpressions()).allMatch(CountStar.class::isInstance);
  }

  private static void name(ArrayNode parts, Expression... operands) {
    if (operands.length == 1 && operands[0] instanceof NamedReference column) {
      for (String part : column.fieldNames()) {
        parts.add(part);
      }
    }
  }
}
