package io.github.pysparkpravega;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.ParameterContext;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.DescribeColumn;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's parser, which tells of statements that Delta, Iceberg and Trino have for their tables what there is instead for
 * one of Pravega. It takes what Spark's takes, but for DESCRIBE HISTORY and DESCRIBE DETAIL of a table that is
 * there: to Spark they are about a column of a table of the name HISTORY.
 */
record StatementParser(SparkSession session, ParserInterface spark) implements LineParser {
  private static final String COMMENTS = "(?is)(?:\\s|--[^\\n]*\\n|/\\*.*?\\*/)*+";
  private static final String PART = "(?:`(?:[^`]|``)+`|[\\w$-]+)";
  private static final Map<String, Pattern> STATEMENTS = new LinkedHashMap<>();
  /** Statements that Spark has from a version on. */
  private static final Map<String, String> SINCE =
      Map.of("CHANGES FROM", "4.2", "CREATE TABLE ... LIKE", "4.2", "INSERT WITH SCHEMA EVOLUTION", "4.2",
          "COMMENT ON COLUMN", "4.3");

  static {
    statement("DESCRIBE HISTORY", "DESC(?:RIBE)? HISTORY <table>");
    statement("DESCRIBE DETAIL", "DESC(?:RIBE)? DETAIL <table>");
    statement("OPTIMIZE", "OPTIMIZE <table>");
    statement("VACUUM", "VACUUM <table>");
    statement("RESTORE TABLE", "RESTORE (?:TABLE )?<table> TO\\b");
    statement("ALTER TABLE ... EXECUTE", "ALTER TABLE <table> EXECUTE\\b");
    statement("ALTER TABLE ... TAG", "ALTER TABLE <table> (?:CREATE|DROP|REPLACE|CREATE OR REPLACE) TAG\\b");
    statement("ALTER TABLE ... BRANCH", "ALTER TABLE <table> (?:CREATE|DROP|REPLACE|CREATE OR REPLACE) BRANCH\\b");
    statement("ALTER TABLE ... PARTITION FIELD", "ALTER TABLE <table> (?:ADD|DROP|REPLACE) PARTITION FIELD\\b");
    statement("ALTER TABLE ... WRITE", "ALTER TABLE <table> WRITE\\b");
    statement("ALTER TABLE ... IDENTIFIER FIELDS", "ALTER TABLE <table> (?:SET|DROP) IDENTIFIER FIELDS\\b");
    statement("CHANGES FROM", ".*?\\b(?:FROM|JOIN|STREAM) <table> CHANGES (?:FROM|BETWEEN)\\b");
    statement("CREATE TABLE ... LIKE", "CREATE TABLE (?:IF NOT EXISTS )?<table> LIKE\\b");
    statement("INSERT WITH SCHEMA EVOLUTION", "INSERT WITH SCHEMA EVOLUTION INTO (?:TABLE )?<table>");
    statement("COMMENT ON COLUMN", "COMMENT ON COLUMN <table> IS\\b");
  }

  private static void statement(String name, String words) {
    String table = "(" + PART + "(?:\\." + PART + ")*)";
    STATEMENTS.put(name, Pattern.compile(COMMENTS + words.replace(" ", "\\s+").replace("<table>", table)));
  }

  @Override
  public LogicalPlan parsePlan(String text) throws ParseException {
    try {
      return checked(text, spark.parsePlan(text));
    } catch (ParseException e) {
      refuse(text, false);
      throw e;
    }
  }

  @Override
  public LogicalPlan parsePlanWithParameters(String text, ParameterContext parameters) throws ParseException {
    try {
      return checked(text, spark.parsePlanWithParameters(text, parameters));
    } catch (ParseException e) {
      refuse(text, false);
      throw e;
    }
  }

  private LogicalPlan checked(String text, LogicalPlan plan) throws ParseException {
    if (plan instanceof DescribeColumn) {
      refuse(text, true);
    }
    newViewOfOlderSpark(plan).ifPresent(name -> refuse("CREATE VIEW", name, false));
    return plan;
  }

  /** @param there whether the table must be there. */
  private void refuse(String text, boolean there) throws ParseException {
    for (Map.Entry<String, Pattern> statement : STATEMENTS.entrySet()) {
      Matcher found = statement.getValue().matcher(text);
      if (isLacking(statement.getKey()) && found.lookingAt()) {
        refuse(statement.getKey(), CollectionConverters.asJava(spark.parseMultipartIdentifier(found.group(1))), there);
      }
    }
  }

  /** Whether this version of Spark does not have a statement: what it has, it can tell all about. */
  private boolean isLacking(String statement) {
    return session.version().compareTo(SINCE.getOrDefault(statement, "9")) < 0;
  }

  private void refuse(String statement, List<String> name, boolean there) {
    NamedTable.of(session, name).ifPresent(table -> {
      if (!there || table.catalog().tableExists(table.ident())) {
        table.catalog().service().refuse(table.ident(), statement);
      }
    });
  }

  @Override
  public Expression parseExpression(String text) throws ParseException {
    return spark.parseExpression(text);
  }

  @Override
  public TableIdentifier parseTableIdentifier(String text) throws ParseException {
    return spark.parseTableIdentifier(text);
  }

  @Override
  public FunctionIdentifier parseFunctionIdentifier(String text) throws ParseException {
    return spark.parseFunctionIdentifier(text);
  }

  @Override
  public Seq<String> parseMultipartIdentifier(String text) throws ParseException {
    return spark.parseMultipartIdentifier(text);
  }

  @Override
  public LogicalPlan parseQuery(String text) throws ParseException {
    return spark.parseQuery(text);
  }

  @Override
  public StructType parseRoutineParam(String text) throws ParseException {
    return spark.parseRoutineParam(text);
  }

  @Override
  public StructType parseTableSchema(String text) throws ParseException {
    return spark.parseTableSchema(text);
  }

  @Override
  public DataType parseDataType(String text) throws ParseException {
    return spark.parseDataType(text);
  }
}
