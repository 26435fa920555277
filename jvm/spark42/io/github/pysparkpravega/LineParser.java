package io.github.pysparkpravega;

import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.parser.SqlStatementSplitResult;
import org.apache.spark.sql.catalyst.parser.TemporalIdentifier;

/** What parsers have from Spark 4.3 on, as Spark's does it. */
interface LineParser extends ParserInterface {
  ParserInterface spark();

  @Override
  default TemporalIdentifier parseTemporalTableIdentifier(String text) throws ParseException {
    return spark().parseTemporalTableIdentifier(text);
  }

  @Override
  default SqlStatementSplitResult splitStatements(String text) {
    return spark().splitStatements(text);
  }
}
