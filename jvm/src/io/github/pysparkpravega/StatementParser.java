package io.github.pysparkpravega;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.parser.ParameterContext;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkSqlParser;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's parser, with better errors for statements that Delta, Iceberg and Trino have for their tables, and for those
 * that only a later Spark has: they say what to use for a table of Pravega. It accepts what Spark's parser accepts,
 * except those statements of Delta, Iceberg and Trino for a table of Pravega that exists: the extensions of Delta and
 * Iceberg parse them, and Spark takes DESCRIBE HISTORY and DESCRIBE DETAIL for a column of a table named HISTORY. Texts
 * that are no statements, such as names, types, expressions and queries of views, it parses as Spark does.
 */
final class StatementParser extends SparkSqlParser {
  private static final String COMMENTS = "(?is)(?:\\s|--[^\\n]*\\n|/\\*.*?\\*/)*+";
  private static final String PART = "(?:`(?:[^`]|``)+`|[\\w$-]+)";
  private static final Map<String, Statement> STATEMENTS = new LinkedHashMap<>();

  private final SparkSession session;
  private final ParserInterface next;

  /** @param next the parser of statements that Spark or another extension has. */
  StatementParser(SparkSession session, ParserInterface next) {
    this.session = session;
    this.next = next;
  }

  /** @param since the version from which on Spark has the statement, null for never. */
  private record Statement(Pattern pattern, String since) {}

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
    later("4.2", "CHANGES FROM", ".*?\\b(?:FROM|JOIN|STREAM) <table> CHANGES (?:FROM|BETWEEN)\\b");
    later("4.2", "CREATE TABLE ... LIKE", "CREATE TABLE (?:IF NOT EXISTS )?<table> LIKE\\b");
    later("4.2", "INSERT WITH SCHEMA EVOLUTION", "INSERT WITH SCHEMA EVOLUTION INTO (?:TABLE )?<table>");
    later("4.3", "COMMENT ON COLUMN", "COMMENT ON COLUMN <table> IS\\b");
  }

  private static void statement(String name, String words) {
    later(null, name, words);
  }

  private static void later(String since, String name, String words) {
    String table = "(" + PART + "(?:\\." + PART + ")*)";
    Pattern pattern = Pattern.compile(COMMENTS + words.replace(" ", "\\s+").replace("<table>", table));
    STATEMENTS.put(name, new Statement(pattern, since));
  }

  @Override
  public LogicalPlan parsePlan(String text) {
    return check(text, () -> next.parsePlan(text));
  }

  @Override
  public LogicalPlan parsePlanWithParameters(String text, ParameterContext parameters) {
    return check(text, () -> next.parsePlanWithParameters(text, parameters));
  }

  private interface Parsing {
    LogicalPlan parse() throws ParseException;
  }

  /**
   * Checks what is parsed. If it is a statement that Spark never has, the parser of Iceberg or Delta knows it, or Spark
   * takes it for the description of a column.
   */
  private LogicalPlan check(String text, Parsing parsing) {
    LogicalPlan plan;
    try {
      plan = parsing.parse();
    } catch (ParseException e) {
      refuse(text, false);
      throw PravegaException.unchecked(e);
    }
    refuse(text, true);
    SparkLine.newViewOfOlderSpark(plan).ifPresent(name -> refuse("CREATE VIEW", name, false));
    return plan;
  }

  /**
   * Refuses a statement that this Spark does not have; what it has, it explains itself.
   *
   * @param parsed whether a parser has taken the text. Then only a table that exists is meant, and no later Spark.
   */
  private void refuse(String text, boolean parsed) {
    STATEMENTS.forEach((name, statement) -> {
      Matcher found = statement.pattern().matcher(text);
      String since = statement.since();
      boolean lacking = since == null || (!parsed && SparkVersion.isOlder(session.version(), since));
      if (lacking && found.lookingAt()) {
        refuse(name, CollectionConverters.asJava(parseMultipartIdentifier(found.group(1))), parsed);
      }
    });
  }

  /** @param there whether the table must exist. */
  private void refuse(String statement, List<String> name, boolean there) {
    NamedTable.of(session, name).ifPresent(table -> {
      if (!there || table.catalog().tableExists(table.ident())) {
        table.catalog().service().refuse(table.ident(), statement);
      }
    });
  }
}
