package io.github.pysparkpravega;

import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.CreateView;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.jdk.javaapi.CollectionConverters;

/** The parser of Spark 4.1: what it must know about statements of that version. */
interface LineParser extends ParserInterface {
  /** Returns the view that a statement makes: Spark 4.1 has views only in its own catalog. */
  default Optional<List<String>> newViewOfOlderSpark(LogicalPlan plan) {
    return plan instanceof CreateView made && made.child() instanceof UnresolvedIdentifier name
        ? Optional.of(CollectionConverters.asJava(name.nameParts()))
        : Optional.empty();
  }
}
