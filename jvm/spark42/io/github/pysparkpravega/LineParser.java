package io.github.pysparkpravega;

import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.parser.SqlStatementSplitResult;
import org.apache.spark.sql.catalyst.parser.TemporalIdentifier;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** The methods of parsers from Spark 4.3 on, which Spark's own parser carries out. */
interface LineParser extends ParserInterface {
  ParserInterface spark();

  /** Returns none: catalogs have views. */
  default Optional<List<String>> newViewOfOlderSpark(LogicalPlan plan) {
    return Optional.empty();
  }

  @Override
  default TemporalIdentifier parseTemporalTableIdentifier(String text) throws ParseException {
    return spark().parseTemporalTableIdentifier(text);
  }

  @Override
  default SqlStatementSplitResult splitStatements(String text) {
    return spark().splitStatements(text);
  }
}
