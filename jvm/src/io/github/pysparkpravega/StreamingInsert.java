package io.github.pysparkpravega;

import java.util.*;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.util.QuotingUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CommandExecutionMode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.Trigger;
import scala.jdk.javaapi.CollectionConverters;

/**
 * An INSERT whose query reads a STREAM. Spark parses and analyzes all of it, so columns are matched, cast, filled with
 * defaults and refused as in any other INSERT. The rows of the analyzed query then go to toTable, by micro-batches.
 */
public record StreamingInsert(SparkSession session, InsertIntoStatement parsed, LogicalPlan analyzed) {
  private static final String TOO_FEW = "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS";

  /** Returns the INSERT of a text that is one and reads a STREAM, or else null. */
  public static StreamingInsert analyze(SparkSession session, String text) throws Exception {
    LogicalPlan parsed = Scripts.parse(session, text);
    InsertIntoStatement insert = Scripts.findInsert(parsed);
    if (insert == null) {
      return null;
    }
    LogicalPlan analyzed;
    try {
      analyzed = analyze(session, parsed);
    } catch (Exception e) {
      LogicalPlan named = e instanceof AnalysisException mistake && TOO_FEW.equals(mistake.getCondition())
          ? nameColumnsButEpochs(session, insert) : null;
      if (named == null) {
        throw e;
      }
      analyzed = analyze(session, parsed == insert ? named : parsed.mapChildren(child -> named));
    }
    return analyzed.isStreaming() ? new StreamingInsert(session, insert, analyzed) : null;
  }

  private static LogicalPlan analyze(SparkSession session, LogicalPlan parsed) {
    session.sparkContext().setLocalProperty(StatementChecks.STREAMING, "true");
    try {
      return session.sessionState().executePlan(parsed, CommandExecutionMode.SKIP()).analyzed();
    } finally {
      session.sparkContext().setLocalProperty(StatementChecks.STREAMING, null);
    }
  }

  /** Returns an INSERT without a list of columns as one that lists all but those of epochs, or null without these. */
  private static LogicalPlan nameColumnsButEpochs(SparkSession session, InsertIntoStatement insert) {
    LogicalPlan target = session.table(quote(insert.table())).queryExecution().analyzed().collectLeaves().head();
    String epochs = findEpochs(target);
    List<String> others = Arrays.stream(target.schema().fieldNames()).filter(name -> !name.equals(epochs)).toList();
    return epochs == null || !insert.userSpecifiedCols().isEmpty() ? null
        : insert.makeCopy(CollectionConverters.asJava(insert.productIterator().toSeq()).stream().map(part ->
            part == insert.userSpecifiedCols() ? CollectionConverters.asScala(others).toSeq() : part).toArray());
  }

  private static String findEpochs(Object target) {
    return target instanceof DataSourceV2Relation into ? into.table().properties().get("epoch-column") : null;
  }

  private static String quote(LogicalPlan target) {
    return CollectionConverters.asJava(((UnresolvedRelation) target).multipartIdentifier()).stream()
        .map(QuotingUtils::quoteIdentifier).collect(Collectors.joining("."));
  }

  /** Starts its query. `more` options are added to those that it has in WITH. */
  public StreamingQuery start(
      String name, String outputMode, String checkpoint, Trigger trigger, Map<String, String> more)
      throws TimeoutException {
    Map<String, String> options = new HashMap<>(((UnresolvedRelation) parsed.table()).options().asCaseSensitiveMap());
    options.keySet().removeIf(key -> key.startsWith("__")); // Spark's own mark says which privileges are needed
    options.putAll(more);
    return rows().writeStream().queryName(name).outputMode(outputMode).options(options)
        .option("checkpointLocation", checkpoint).trigger(trigger).toTable(quote(parsed.table()));
  }

  /** Returns its query, as the columns of the table. */
  public LogicalPlan query() {
    return (LogicalPlan) (analyzed.children().isEmpty() ? analyzed.innerChildren() : analyzed.children()).head();
  }

  /** Returns its rows. A sink that writes epochs itself gets no column of them, unless the query computes one. */
  private Dataset<Row> rows() {
    LogicalPlan query = query();
    String epochs = analyzed instanceof V2WriteCommand write ? findEpochs(write.table()) : null;
    boolean isNull = query instanceof Project all && all.projectList().exists(column -> column.name().equals(epochs)
        && column instanceof Alias given && given.child().foldable() && given.child().eval(null) == null);
    Dataset<Row> rows = Dataset.ofRows(session, query);
    return isNull ? rows.drop(epochs) : rows;
  }
}
