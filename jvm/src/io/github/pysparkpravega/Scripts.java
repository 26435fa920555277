package io.github.pysparkpravega;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LeafNode;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.classic.SparkSession;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/** What scripts and views ask of the session's parser and of its plans. */
public final class Scripts {
  /** Parses a text. Variables such as ${name} are looked up in the active session. */
  public static LogicalPlan parse(SparkSession session, String text) throws ParseException {
    SparkSession.setActiveSession(session);
    return session.sessionState().sqlParser().parsePlan(text);
  }

  /** Returns the options of every STREAM that an analyzed plan reads; none of those that are not Pravega's. */
  public static List<Map<String, String>> optionsOfStreams(LogicalPlan plan) {
    List<Map<String, String>> found = new ArrayList<>();
    plan.foreachWithSubqueries(part -> {
      if (part instanceof StreamingRelationV2 read) {
        found.add(read.table() instanceof PravegaTable
            ? PravegaTable.dropOwnOptions(read.extraOptions()).asCaseSensitiveMap() : Map.of());
      } else if (part instanceof LeafNode && part.isStreaming()) {
        found.add(Map.of());
      }
      return BoxedUnit.UNIT;
    });
    return found;
  }

  /** Returns the INSERT of a parsed statement, which may begin WITH; null if it is another one. */
  public static InsertIntoStatement findInsert(LogicalPlan parsed) {
    LogicalPlan inner = parsed instanceof UnresolvedWith with ? with.child() : parsed;
    return inner instanceof InsertIntoStatement insert ? insert : null;
  }

  /** Returns whether a plan reads a STREAM, even within a WITH. */
  public static boolean isStreaming(LogicalPlan plan) {
    List<QueryPlan<?>> parts = new ArrayList<>(CollectionConverters.asJava(plan.children()));
    parts.addAll(CollectionConverters.asJava(plan.innerChildren()));
    return plan.isStreaming() || parts.stream().anyMatch(part -> isStreaming((LogicalPlan) part));
  }
}
