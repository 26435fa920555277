package io.github.pysparkpravega;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NonSQLExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.ScalaUDF;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.BROADCAST$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.HintInfo;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Lets a join of a micro-batch with a key-value table read only the keys of the micro-batch. Spark's own rule for this
 * leaves streams out. In an inner join the micro-batch is broadcast, if it is small enough for that, and the scan of the
 * table gets the keys of this very broadcast: the subquery has no other plan. If Spark joins in another way after all,
 * it reads the whole table. Where all rows of the micro-batch stay, as in a left join, Spark cannot broadcast it: the
 * subqueries read the keys of the same events once more, all key columns together.
 */
final class LookupJoins extends Rule<LogicalPlan> {
  /** Joins whose result needs no row of the right side but those that match one of the left side. */
  private static final Set<JoinType> OF_THE_LEFT = Set.of(LeftOuter$.MODULE$, LeftSemi$.MODULE$, LeftAnti$.MODULE$);

  private final SparkSession session;

  LookupJoins(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    boolean planned = !SparkVersion.isOlder(session.version(), "4.3") && conf().dynamicPartitionPruningEnabled()
        && conf().exchangeReuseEnabled();
    if (!planned || !plan.isStreaming()) {
      return plan;
    }
    return plan.transformUp(new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
      @Override
      public boolean isDefinedAt(LogicalPlan part) {
        return part instanceof Join;
      }

      @Override
      public LogicalPlan apply(LogicalPlan part) {
        Join join = (Join) part;
        if (join.condition().isEmpty() || join.left().isStreaming() == join.right().isStreaming()) {
          return join;
        }
        if (join.left().isStreaming()) {
          return prune(join);
        }
        if (join.joinType() != Inner$.MODULE$ && join.joinType() != RightOuter$.MODULE$) {
          return join;
        }
        Join turned = turn(join);
        Join pruned = prune(turned);
        return pruned == turned ? join : new Project(seq(new ArrayList<>(list(join.output()))), pruned);
      }
    });
  }

  /** Returns an inner or right join with its sides exchanged: a right join becomes a left one. */
  private static Join turn(Join join) {
    JoinType type = join.joinType() == RightOuter$.MODULE$ ? LeftOuter$.MODULE$ : join.joinType();
    JoinHint hint = new JoinHint(join.hint().rightHint(), join.hint().leftHint());
    return join.copy(join.right(), join.left(), type, join.condition(), hint);
  }

  /**
   * Returns a join with a scan that gets the keys of the stream, or the join itself if that is not possible. The stream
   * is its left side, so that the scan whose rows Spark counts is in the join and not in the subquery.
   */
  private Join prune(Join join) {
    LogicalPlan stream = join.left();
    LogicalPlan table = join.right();
    Option<HintInfo> given = join.hint().leftHint();
    Option<HintInfo> other = join.hint().rightHint();
    boolean isInner = join.joinType() == Inner$.MODULE$;
    boolean asked = given.exists(info -> info.strategy().contains(BROADCAST$.MODULE$));
    if (isInner ? strategy(other).isDefined() || (strategy(given).isDefined() && !asked)
        : !OF_THE_LEFT.contains(join.joinType())) {
      return join;
    }
    List<Expression> streamKeys = new ArrayList<>();
    List<Expression> tableKeys = new ArrayList<>();
    for (Expression part : list(PartitionPruning$.MODULE$.splitConjunctivePredicates(join.condition().get()))) {
      if (part instanceof EqualTo equal) {
        boolean straight = isOf(equal.left(), stream) && isOf(equal.right(), table);
        if (straight || (isOf(equal.left(), table) && isOf(equal.right(), stream))) {
          streamKeys.add(straight ? equal.left() : equal.right());
          tableKeys.add(straight ? equal.right() : equal.left());
        }
      }
    }
    boolean isLookedUp = tableKeys.stream().anyMatch(key -> isKey(key, table));
    if (!isLookedUp || !isRepeatable(stream) || !streamKeys.stream().allMatch(LookupJoins::isRepeatable)
        || (!asked && bytes(stream) > conf().autoBroadcastJoinThreshold())) {
      return join;
    }
    LogicalPlan source = stream;
    List<Expression> sourceKeys = streamKeys;
    if (!isInner && tableKeys.stream().filter(key -> isKey(key, table)).count() > 1) {
      source = distinct(streamKeys, stream);
      sourceKeys = new ArrayList<>(list(source.output()));
    }
    LogicalPlan pruned = table;
    for (int index = 0; index < tableKeys.size(); index++) {
      if (isKey(tableKeys.get(index), table)) {
        pruned = new Filter(new DynamicPruningSubquery(tableKeys.get(index), source, seq(sourceKeys),
            seq(List.of((Object) index)), isInner, NamedExpression.newExprId(), Option.empty(), Option.empty()), pruned);
      }
    }
    Option<HintInfo> hint = isInner ? Option.apply(new HintInfo(Option.apply(BROADCAST$.MODULE$))) : given;
    return join.copy(stream, pruned, join.joinType(), join.condition(), new JoinHint(hint, other));
  }

  /**
   * Returns the distinct keys of a stream. Subqueries of several of its key columns that begin with it share its shuffle,
   * and so read the events once for all.
   */
  private static LogicalPlan distinct(List<Expression> keys, LogicalPlan stream) {
    List<NamedExpression> named = new ArrayList<>();
    for (Expression key : keys) {
      named.add(new Alias(key, "key", NamedExpression.newExprId(), seq(List.of()), Option.empty(), seq(List.of())));
    }
    return new Aggregate(seq(keys), seq(named), stream, Option.empty());
  }

  private static Option<?> strategy(Option<HintInfo> hint) {
    return hint.isEmpty() ? Option.empty() : hint.get().strategy();
  }

  private static boolean isOf(Expression expression, LogicalPlan side) {
    return !expression.references().isEmpty() && expression.references().subsetOf(side.outputSet());
  }

  /** Returns whether an expression is a key column of a key-value table. */
  private static boolean isKey(Expression expression, LogicalPlan side) {
    Option<Tuple2<Expression, LogicalPlan>> found =
        PartitionPruning$.MODULE$.findExpressionAndTrackLineageDown(expression, side);
    if (found.isEmpty() || !(found.get()._1() instanceof Attribute column)
        || !(found.get()._2() instanceof DataSourceV2Relation relation)
        || !(relation.table() instanceof PravegaTable table) || !table.takesUpdates()) {
      return false;
    }
    Set<String> keys = Arrays.stream(table.rowKey()).map(key -> key.fieldNames()[0]).collect(Collectors.toSet());
    return keys.contains(column.name());
  }

  /** Returns whether a plan is a micro-batch of a table, whose rows are the same each time it is read. */
  private static boolean isRepeatable(LogicalPlan plan) {
    if (plan instanceof StreamingDataSourceV2ScanRelation scan) {
      return scan.stream() instanceof PravegaTableStream stream && !stream.isRealTime()
          && scan.startOffset().isDefined() && scan.endOffset().isDefined();
    }
    boolean is = plan instanceof Project || plan instanceof Filter;
    return is && list(plan.expressions()).stream().allMatch(LookupJoins::isRepeatable)
        && isRepeatable(list(plan.children()).get(0));
  }

  private static boolean isRepeatable(Expression expression) {
    return expression.deterministic() && !expression.exists(part -> part instanceof NonSQLExpression
        || part instanceof ScalaUDF || part instanceof PythonUDF || part instanceof SubqueryExpression);
  }

  private static long bytes(LogicalPlan plan) {
    if (plan instanceof StreamingDataSourceV2ScanRelation scan) {
      return ((PravegaTableStream) scan.stream()).bytes(scan.startOffset().get(), scan.endOffset().get());
    }
    return bytes(list(plan.children()).get(0));
  }

  private static <T> List<T> list(Seq<T> found) {
    return CollectionConverters.asJava(found);
  }

  private static <T> Seq<T> seq(List<T> found) {
    return CollectionConverters.asScala(found).toSeq();
  }
}
