package io.github.pysparkpravega;

import java.util.*;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegralType;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Lets a join of a micro-batch with a table that has keys read only the keys of the micro-batch. Spark's own rule for this
 * leaves streams out. In an inner join the micro-batch is broadcast, if it is small enough for that, and the scan of the
 * table gets the keys of this very broadcast: the subquery has no other plan. If Spark joins in another way after all,
 * it reads the whole table. Spark cannot broadcast a micro-batch whose rows all stay, as in a left join, nor plan a
 * watermark in a subquery: then the subqueries read the keys of the same events once more, all key columns together.
 */
final class LookupJoins extends Rule<LogicalPlan> {
  /** Joins whose result needs no row of the right side but those that match one of the left side. */
  private static final Set<JoinType> OF_THE_LEFT =
      Set.of(Inner$.MODULE$, LeftOuter$.MODULE$, LeftSemi$.MODULE$, LeftAnti$.MODULE$);

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
        if (isLookup(join)) {
          return prune(join);
        }
        if (join.joinType() != Inner$.MODULE$ && join.joinType() != RightOuter$.MODULE$) {
          return join;
        }
        Join turned = turn(join);
        LogicalPlan pruned = prune(turned);
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
  private LogicalPlan prune(Join join) {
    KeysOfMicroBatch keys = isLookup(join) ? KeysOfMicroBatch.of(join.left()) : null;
    Set<ExprId> columns = keys == null ? Set.of() : keyColumns(join.right());
    Option<HintInfo> given = join.hint().leftHint();
    Option<HintInfo> other = join.hint().rightHint();
    boolean asked = given.exists(info -> info.strategy().contains(BROADCAST$.MODULE$));
    if (columns.isEmpty() || (!asked && keys.bytes() > conf().autoBroadcastJoinThreshold())) {
      return join;
    }
    Join narrow = withNarrowKeys(join, columns);
    List<EqualTo> equalities = equalities(narrow);
    boolean isBroadcast = join.joinType() == Inner$.MODULE$ && strategy(other).isEmpty()
        && (asked || strategy(given).isEmpty()) && keys.isWhole
        && equalities.stream().allMatch(equal -> KeysOfMicroBatch.isRepeatable(equal.left()));
    boolean isOuter = !isBroadcast && join.left().exists(LookupJoins::isForEachBatch);
    if (isOuter && join.joinType() == LeftSemi$.MODULE$) {
      return join;
    }
    List<Expression> streamKeys = new ArrayList<>();
    List<Expression> tableKeys = new ArrayList<>();
    for (EqualTo equal : equalities) {
      Expression key = isBroadcast ? equal.left() : keys.trace(equal.left());
      if (key != null && (isBroadcast || isKey(equal.right(), join.right(), columns))) {
        streamKeys.add(key);
        tableKeys.add(equal.right());
      }
    }
    LogicalPlan source = isBroadcast ? join.left() : keys.distinct(streamKeys);
    Seq<Expression> sourceKeys = seq(isBroadcast ? streamKeys : new ArrayList<>(list(source.output())));
    LogicalPlan pruned = join.right();
    for (int index = 0; index < tableKeys.size(); index++) {
      if (isKey(tableKeys.get(index), join.right(), columns)) {
        pruned = new Filter(new DynamicPruningSubquery(tableKeys.get(index), source, sourceKeys,
            seq(List.of((Object) index)), isBroadcast, NamedExpression.newExprId(), Option.empty(), Option.empty()),
            pruned);
      }
    }
    if (pruned == join.right()) {
      return join;
    }
    Option<HintInfo> hint = isBroadcast ? Option.apply(new HintInfo(Option.apply(BROADCAST$.MODULE$))) : given;
    Join looked = narrow.copy(join.left(), pruned, join.joinType(), narrow.condition(), new JoinHint(hint, other));
    if (!isOuter || join.joinType() != Inner$.MODULE$) {
      return looked;
    }
    Join outer = looked.copy(join.left(), pruned, LeftOuter$.MODULE$, narrow.condition(), looked.hint());
    Expression matched = new IsNotNull(((Attribute) tableKeys.get(0)).withNullability(true));
    return new Project(seq(new ArrayList<>(list(join.output()))), new Filter(matched, outer));
  }

  /**
   * Returns whether a part of a stream must see all rows of each micro-batch: state, which every one stores again, and
   * watermarks. An inner or semi join without a row of the table leaves its other side unread; a left join does not.
   */
  private static boolean isForEachBatch(LogicalPlan part) {
    return KeysOfMicroBatch.dropsDuplicates(part) || part instanceof EventTimeWatermark;
  }

  /** Returns whether rows of the right side count only where they match one of the left side, which is a stream. */
  static boolean isLookup(Join join) {
    return join.left().isStreaming() && !join.right().isStreaming() && OF_THE_LEFT.contains(join.joinType())
        && join.condition().isDefined();
  }

  /**
   * Returns a join that also compares the key columns which it compares as wider numbers only. The value of the stream is
   * null if it is too large for the column, so that the condition is true for the same rows.
   */
  private static Join withNarrowKeys(Join join, Set<ExprId> columns) {
    Expression condition = join.condition().get();
    for (EqualTo equal : equalities(join)) {
      if (equal.right() instanceof Cast cast && isExact(cast.child().dataType()) && isExact(cast.dataType())
          && Cast.canUpCast(cast.child().dataType(), cast.dataType()) && isKey(cast.child(), join.right(), columns)) {
        Expression narrow = new Cast(equal.left(), cast.child().dataType(), cast.timeZoneId(), EvalMode.TRY());
        condition = new And(condition, new EqualTo(narrow, cast.child()));
      }
    }
    return join.copy(join.left(), join.right(), join.joinType(), Option.apply(condition), join.hint());
  }

  private static boolean isExact(DataType type) {
    return type instanceof IntegralType || type instanceof DecimalType;
  }

  /** Returns the comparisons of the left side with the right one, in this order. */
  private static List<EqualTo> equalities(Join join) {
    List<EqualTo> equalities = new ArrayList<>();
    for (Expression part : conjuncts(join.condition().get())) {
      if (part instanceof EqualTo equal) {
        boolean straight = isOf(equal.left(), join.left()) && isOf(equal.right(), join.right());
        if (straight || (isOf(equal.left(), join.right()) && isOf(equal.right(), join.left()))) {
          equalities.add(straight ? equal : new EqualTo(equal.right(), equal.left()));
        }
      }
    }
    return equalities;
  }

  static List<Expression> conjuncts(Expression condition) {
    return list(PartitionPruning$.MODULE$.splitConjunctivePredicates(condition));
  }

  private static Option<?> strategy(Option<HintInfo> hint) {
    return hint.isEmpty() ? Option.empty() : hint.get().strategy();
  }

  private static boolean isOf(Expression expression, LogicalPlan side) {
    return !expression.references().isEmpty() && expression.references().subsetOf(side.outputSet());
  }

  /** Returns the columns by whose values the scans of a plan leave rows out. */
  private static Set<ExprId> keyColumns(LogicalPlan plan) {
    Set<ExprId> columns = new HashSet<>();
    for (LogicalPlan leaf : list(plan.collectLeaves())) {
      if (leaf instanceof DataSourceV2Relation relation && relation.table() instanceof PravegaTable table
          && table.newScanBuilder(relation.options()).build() instanceof PravegaScan scan) {
        Set<String> names =
            Arrays.stream(scan.filterAttributes()).map(key -> key.fieldNames()[0]).collect(Collectors.toSet());
        list(relation.output()).stream().filter(column -> names.contains(column.name()))
            .forEach(column -> columns.add(column.exprId()));
      }
    }
    return columns;
  }

  private static boolean isKey(Expression expression, LogicalPlan side, Set<ExprId> columns) {
    Option<Tuple2<Expression, LogicalPlan>> origin =
        PartitionPruning$.MODULE$.findExpressionAndTrackLineageDown(expression, side);
    return origin.isDefined() && origin.get()._1() instanceof Attribute column && columns.contains(column.exprId());
  }

  private static <T> List<T> list(Seq<T> found) {
    return CollectionConverters.asJava(found);
  }

  static <T> Seq<T> seq(List<T> found) {
    return CollectionConverters.asScala(found).toSeq();
  }
}
