package io.github.pysparkpravega;

import io.github.pysparkpravega.Requests.*;
import java.util.*;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Describes what Spark asks of a scan: conditions for its rows, as terms, each after its operands, and an aggregation,
 * in which anything but a column has an empty name.
 */
final class Pushdown {
  // A condition with more terms, such as a long IN, takes longer to send to tasks than it saves.
  private static final int MOST_TERMS = 500;

  static List<Condition> describe(Predicate[] predicates) {
    return describe(predicates, MOST_TERMS);
  }

  /** @param most terms of a condition that is described. */
  static List<Condition> describe(Predicate[] predicates, int most) {
    return Arrays.stream(predicates).map(predicate -> {
      List<Term> terms = new ArrayList<>();
      add(terms, predicate, most);
      return new Condition(terms.size() <= most
          ? terms
          : List.of(new Term(isPlainList(predicate) ? "IN" : "", 0, null, null))); // nothing that can be evaluated
    }).toList();
  }

  /** Returns whether a condition is an IN of a column and literals, which cannot fail. */
  private static boolean isPlainList(Predicate predicate) {
    Expression[] children = predicate.children();
    return predicate.name().equals("IN") && children[0] instanceof NamedReference
        && Arrays.stream(children).skip(1).allMatch(Literal.class::isInstance);
  }

  private static void add(List<Term> terms, Expression expression, int most) {
    if (terms.size() > most) {
      return;
    }
    if (expression instanceof NamedReference column && column.fieldNames().length == 1) {
      terms.add(new Term("COLUMN", 0, null, column.fieldNames()[0]));
    } else if (expression instanceof Literal<?> literal) {
      terms.add(new Term("LITERAL", 0, literal.dataType().catalogString(), text(literal.value())));
    } else {
      for (Expression child : expression.children()) {
        add(terms, child, most);
      }
      terms.add(new Term(name(expression), expression.children().length, null, null));
    }
  }

  private static String name(Expression expression) {
    return expression instanceof GeneralScalarExpression named ? named.name() : expression.getClass().getSimpleName();
  }

  private static String text(Object value) {
    byte[] bytes = value instanceof UTF8String text ? text.getBytes() : value instanceof byte[] binary ? binary : null;
    return bytes != null ? Base64.getEncoder().encodeToString(bytes) : value == null ? null : value.toString();
  }

  static Requests.Aggregation describe(Aggregation aggregation) {
    return new Requests.Aggregation(
        Arrays.stream(aggregation.aggregateExpressions()).map(function -> new AggregateFunction(
            function.getClass().getSimpleName(), column(function.children()))).toList(),
        Arrays.stream(aggregation.groupByExpressions()).map(Pushdown::column).toList());
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
