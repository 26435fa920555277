package io.github.pysparkpravega;

import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.CreateView;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.jdk.javaapi.CollectionConverters;

/** What parsers of Spark 4.1 must know of its statements; they have nothing of their own. */
interface LineParser extends ParserInterface {
  /** The view that a statement makes, which Spark 4.1 does in its own catalog alone. */
  default Optional<List<String>> newViewOfOlderSpark(LogicalPlan plan) {
    return plan instanceof CreateView made && made.child() instanceof UnresolvedIdentifier name
        ? Optional.of(CollectionConverters.asJava(name.nameParts()))
        : Optional.empty();
  }
}
