package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.Base64;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.unsafe.types.UTF8String;

/** Spells the conditions that Spark has for the rows of a scan: terms, each behind those that it is about. */
final class PushedConditions {
  // A condition with more, such as a long IN, takes longer to hand out than it saves.
  private static final int MOST_TERMS = 500;

  private PushedConditions() {}

  static ArrayNode json(Predicate[] predicates) {
    return json(predicates, MOST_TERMS);
  }

  /** @param most terms of a condition that is spelled. */
  static ArrayNode json(Predicate[] predicates, int most) {
    ArrayNode conditions = Service.JSON.createArrayNode();
    for (Predicate predicate : predicates) {
      ArrayNode terms = Service.JSON.createArrayNode();
      add(terms, predicate, most);
      if (terms.size() > most) {
        terms.removeAll();
        term(terms, isPlainList(predicate) ? "IN" : "", 0); // nothing that can be evaluated
      }
      conditions.addObject().set("terms", terms);
    }
    return conditions;
  }

  /** Tells that a condition is an IN of a column and literals, which cannot fail. */
  private static boolean isPlainList(Predicate predicate) {
    Expression[] children = predicate.children();
    return predicate.name().equals("IN") && children[0] instanceof NamedReference
        && Arrays.stream(children).skip(1).allMatch(Literal.class::isInstance);
  }

  private static void add(ArrayNode terms, Expression expression, int most) {
    if (terms.size() > most) {
      return;
    }
    if (expression instanceof NamedReference column && column.fieldNames().length == 1) {
      term(terms, "COLUMN", 0).put("value", column.fieldNames()[0]);
    } else if (expression instanceof Literal<?> literal) {
      term(terms, "LITERAL", 0).put("type", literal.dataType().catalogString()).put("value", text(literal.value()));
    } else {
      for (Expression child : expression.children()) {
        add(terms, child, most);
      }
      term(terms, name(expression), expression.children().length);
    }
  }

  private static String name(Expression expression) {
    return expression instanceof GeneralScalarExpression named ? named.name() : expression.getClass().getSimpleName();
  }

  private static ObjectNode term(ArrayNode terms, String name, int children) {
    return terms.addObject().put("name", name).put("children", children).putNull("type").putNull("value");
  }

  private static String text(Object value) {
    byte[] bytes = value instanceof UTF8String text ? text.getBytes() : value instanceof byte[] binary ? binary : null;
    return bytes != null ? Base64.getEncoder().encodeToString(bytes) : value == null ? null : value.toString();
  }
}
