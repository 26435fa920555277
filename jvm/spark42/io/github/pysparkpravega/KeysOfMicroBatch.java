package io.github.pysparkpravega;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The keys of the rows of a micro-batch, from a plan that reads its events once more. The plan has the conditions of the
 * query that can be evaluated again. If it lacks one, it has the keys of more rows, and evaluates nothing that may fail:
 * that condition may keep out the very rows with which it fails.
 */
final class KeysOfMicroBatch {
  private final LogicalPlan rows;
  private final StreamingDataSourceV2ScanRelation scan;
  private final PravegaStream stream;
  private final List<Expression> conditions = new ArrayList<>();
  private boolean hasAllConditions = true;
  /** Whether the plan of the rows can be repeated as it is, so that one broadcast of it serves two purposes. */
  boolean isWhole = true;

  private KeysOfMicroBatch(LogicalPlan rows, StreamingDataSourceV2ScanRelation scan, PravegaStream stream) {
    this.rows = rows;
    this.scan = scan;
    this.stream = stream;
  }

  /** Returns the keys of a plan if all its rows come from the events of one micro-batch; otherwise null. */
  static @OrNull KeysOfMicroBatch of(LogicalPlan rows) {
    LogicalPlan leaf = rows;
    List<LogicalPlan> above = new ArrayList<>();
    while (!(leaf instanceof StreamingDataSourceV2ScanRelation)) {
      if (!(leaf instanceof Project || leaf instanceof Filter || leaf instanceof EventTimeWatermark || dropsRows(leaf))) {
        return null;
      }
      above.add(0, leaf);
      leaf = leaf.children().head();
    }
    StreamingDataSourceV2ScanRelation scan = (StreamingDataSourceV2ScanRelation) leaf;
    if (!(scan.stream() instanceof PravegaStream stream) || scan.startOffset().isEmpty() || scan.endOffset().isEmpty()
        || (stream instanceof PravegaTableStream table && table.isRealTime())) {
      return null;
    }
    KeysOfMicroBatch keys = new KeysOfMicroBatch(rows, scan, stream);
    above.forEach(keys::pass);
    return keys;
  }

  /** Returns whether a plan has rows of its first child as they are, and leaves out some by other means than conditions. */
  private static boolean dropsRows(LogicalPlan plan) {
    return dropsDuplicates(plan) || plan instanceof Join join && LookupJoins.isLookup(join);
  }

  static boolean dropsDuplicates(LogicalPlan plan) {
    return plan instanceof Deduplicate || plan instanceof DeduplicateWithinWatermark;
  }

  private void pass(LogicalPlan plan) {
    isWhole &= (plan instanceof Project || plan instanceof Filter)
        && CollectionConverters.asJava(plan.expressions()).stream().allMatch(KeysOfMicroBatch::isRepeatable);
    if (plan instanceof Filter filter) {
      for (Expression part : LookupJoins.conjuncts(filter.condition())) {
        Expression condition = trace(part, filter.child());
        if (condition != null) {
          conditions.add(condition);
        }
        hasAllConditions &= condition != null;
      }
    }
    hasAllConditions &= !dropsRows(plan);
  }

  /** Returns the bytes of the micro-batch's events. */
  long bytes() {
    return stream.plan(scan.startOffset().get(), scan.endOffset().get()).bytes();
  }

  /** Returns an expression of the rows as one of their events; null if that cannot be evaluated again. */
  @OrNull Expression trace(Expression expression) {
    return stream.isRepeatable() ? trace(expression, rows) : null;
  }

  private @OrNull Expression trace(Expression expression, LogicalPlan plan) {
    Option<Tuple2<Expression, LogicalPlan>> found =
        PartitionPruning$.MODULE$.findExpressionAndTrackLineageDown(expression, plan);
    return found.isDefined() && found.get()._2() == scan && isRepeatable(found.get()._1())
        && (hasAllConditions || isSafe(found.get()._1())) ? found.get()._1() : null;
  }

  /** Returns the distinct values of expressions that were traced. Subqueries that begin with it share its shuffle. */
  LogicalPlan distinct(List<Expression> keys) {
    LogicalPlan events = scan;
    for (Expression condition : conditions) {
      events = new Filter(condition, events);
    }
    List<NamedExpression> named = new ArrayList<>();
    for (Expression key : keys) {
      events = new Filter(new IsNotNull(key), events); // a row with a null matches none, and scans look up no null
      named.add(new Alias(key, "key", NamedExpression.newExprId(), LookupJoins.seq(List.of()), Option.empty(),
          LookupJoins.seq(List.of())));
    }
    return new Aggregate(LookupJoins.seq(keys), LookupJoins.seq(named), events, Option.empty());
  }

  /** Returns whether an expression fails for no value. */
  private static boolean isSafe(Expression expression) {
    return expression instanceof Attribute || expression instanceof Cast cast && isSafe(cast.child())
        && (cast.evalMode() == EvalMode.TRY() || Cast.canUpCast(cast.child().dataType(), cast.dataType()));
  }

  static boolean isRepeatable(Expression expression) {
    return expression.deterministic() && !expression.exists(part -> part instanceof NonSQLExpression
        || part instanceof UserDefinedExpression || part instanceof SubqueryExpression);
  }
}
