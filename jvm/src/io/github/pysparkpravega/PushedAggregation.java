package io.github.pysparkpravega;

import io.github.pysparkpravega.Requests.AggregateFunction;
import java.util.Arrays;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;

/** Describes an aggregation that Spark asks a scan for. Anything but a column has an empty name. */
final class PushedAggregation {
  private PushedAggregation() {}

  static Requests.Aggregation describe(Aggregation aggregation) {
    return new Requests.Aggregation(
        Arrays.stream(aggregation.aggregateExpressions()).map(function -> new AggregateFunction(
            function.getClass().getSimpleName(), column(function.children()))).toList(),
        Arrays.stream(aggregation.groupByExpressions()).map(PushedAggregation::column).toList());
  }

  /** Returns whether nothing but the number of all rows is asked for. */
  static boolean countsRows(Aggregation aggregation) {
    return aggregation.groupByExpressions().length == 0
        && Arrays.stream(aggregation.aggregateExpressions()).allMatch(CountStar.class::isInstance);
  }

  private static String[] column(Expression... operands) {
    return operands.length == 1 && operands[0] instanceof NamedReference column ? column.fieldNames() : new String[0];
  }
}
